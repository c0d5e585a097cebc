/*
 * slot.c -- the CRC16 of the Redis Cluster specification (XMODEM: polynomial 0x1021).
 */
#include "daemon/backend/slot.h"

#include <assert.h>

/* The CRC of each value of four bits. */
static const uint16_t remainder_of[16] = {
    0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
    0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
};

static uint16_t
crc16(const char *p, size_t n)
{
    uint16_t crc = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned byte = (unsigned char)p[i];

        crc = (uint16_t)(crc << 4) ^ remainder_of[(crc >> 12) ^ (byte >> 4)];
        crc = (uint16_t)(crc << 4) ^ remainder_of[(crc >> 12) ^ (byte & 15)];
    }
    return crc;
}

/* The text between the first '{' and the first '}' behind it; empty: the key has no tag. */
static struct slice
tag_of(struct slice key)
{
    const char *open = key.n > 0 ? memchr(key.p, '{', key.n) : NULL;
    const char *close = open != NULL ? memchr(open + 1, '}', key.n - (size_t)(open + 1 - key.p)) : NULL;

    return close != NULL ? (struct slice){open + 1, (size_t)(close - open - 1)} : (struct slice){0};
}

uint16_t
slot_of(struct slice key)
{
    struct slice tag = tag_of(key);

    return (tag.n > 0 ? crc16(tag.p, tag.n) : crc16(key.p, key.n)) % SLOTS;
}

bool
slot_suits(struct slice key)
{
    bool open = key.n > 0 && memchr(key.p, '{', key.n) != NULL;

    return open ? tag_of(key).n > 0 : key.n > 0 && memchr(key.p, '}', key.n) == NULL;
}

/* The n-th text with that number of characters. */
static void
spell(unsigned n, unsigned chars, char out[SLOT_TAG_ROOM])
{
    static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    for (unsigned i = chars; i-- > 0; n /= sizeof(alphabet) - 1) {
        out[i] = alphabet[n % (sizeof(alphabet) - 1)];
    }
    out[chars] = '\0';
}

/* Each slot gets the shortest text with that slot, and of several the first one by `alphabet`. */
void
slot_tags_fill(struct slot_tags *t)
{
    unsigned left = SLOTS, texts = 1;
    char text[SLOT_TAG_ROOM];

    memset(t, 0, sizeof(*t));
    for (unsigned chars = 1; chars < SLOT_TAG_ROOM && left > 0; chars++) {
        texts *= 62;
        for (unsigned n = 0; n < texts && left > 0; n++) {
            char *tag;

            spell(n, chars, text);
            tag = t->tag[crc16(text, chars) % SLOTS];
            if (tag[0] == '\0') {
                memcpy(tag, text, sizeof(text));
                left--;
            }
        }
    }
    assert(left == 0);
}
