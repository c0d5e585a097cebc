/*
 * shim.c -- malloc and system calls that fail by order of a page. Preloaded into a daemon (RLOCKD_FAULTS names the
 * page's file), or linked into a test whose own allocations are to fail.
 *
 * The functions here come before libc and, in a build with AddressSanitizer, before its runtime, which they call in
 * place of libc then: so its own checks stay.
 */
#include "tests/faults/shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(SHIM_UNDER_ASAN)
#define REAL(name) __interceptor_##name
#else
#define REAL(name) __libc_##name
#endif

void *REAL(malloc)(size_t n);
void *REAL(calloc)(size_t n, size_t size);
void *REAL(realloc)(void *old, size_t n);
void REAL(free)(void *p);
int eventfd(unsigned count, int flags);
int timerfd_create(int clock, int flags);
ssize_t getrandom(void *p, size_t n, unsigned flags);
__attribute__((weak)) void __lsan_disable(void);
__attribute__((weak)) void __lsan_enable(void);

static struct page own_page;
struct page *faults = &own_page;

static uintptr_t program_from, program_to;
static bool inside; /* the shim itself makes a call */

/* ---- callers ---- */

static int
find_program(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    program_from = info->dlpi_addr; /* the first one is the program */
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;

        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > program_to) {
            program_to = end;
        }
    }
    return 1;
}

static uint64_t
in_program(const void *at)
{
    uintptr_t a = (uintptr_t)at;

    return a >= program_from && a < program_to ? a - program_from : 0;
}

/* Hash of the callers; *site = the innermost caller of the program. */
static uint32_t
look_back(uint64_t frame[FRAMES], uint64_t *frames_n, uint32_t *site)
{
    void *at[FRAMES + 3];
    int n;
    uint32_t hash = 2166136261u;

    inside = true;
    n = backtrace(at, FRAMES + 3);
    inside = false;
    *frames_n = 0;
    *site = 0;
    for (int i = 3; i < n; i++) {
        uint64_t offset = in_program(at[i]);

        frame[(*frames_n)++] = offset;
        hash = (hash ^ (uint32_t)(offset != 0 ? offset : (uintptr_t)at[i])) * 16777619u;
        *site = *site == 0 ? (uint32_t)offset : *site;
    }
    return hash;
}

/* ---- failures ---- */

__attribute__((noinline)) static bool
fails(enum family family)
{
    uint64_t n, frame[FRAMES], frames_n;
    uint32_t site;

    if (inside) {
        return false;
    }
    n = ++faults->calls[family];
    if (faults->record == family && n < CALLS_MAX) {
        faults->stack[n] = look_back(frame, &frames_n, &site);
        faults->site[n] = site;
    }
    if (faults->family != family || n < faults->first || n - faults->first >= faults->length) {
        return false;
    }
    if (faults->injected++ == 0) {
        (void)look_back(faults->frame, &faults->frames_n, &site);
    }
    errno = (int)faults->error;
    return true;
}

__attribute__((constructor)) static void
start(void)
{
    const char *path = getenv("RLOCKD_FAULTS");
    void *at[4];
    int fd;

    inside = true;
    (void)dl_iterate_phdr(find_program, NULL);
    if (__lsan_disable != NULL) {
        __lsan_disable();
    }
    (void)backtrace(at, 4); /* loads its library now, so that later calls allocate nothing */
    if (__lsan_enable != NULL) {
        __lsan_enable();
    }
    if (path != NULL) {
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd >= 0) {
            void *p = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

            faults = p != MAP_FAILED ? p : faults;
            close(fd);
        }
        unsetenv("LD_PRELOAD"); /* an embedded Redis runs without the shim */
    }
    inside = false;
}

/* ---- memory ---- */

static void *
out(void *p)
{
    faults->alive += p != NULL;
    return p;
}

static bool
no_memory(void)
{
    int was = errno;

    if (fails(ALLOC)) {
        errno = ENOMEM;
        return true;
    }
    errno = was;
    return false;
}

void *
malloc(size_t n)
{
    return no_memory() ? NULL : out(REAL(malloc)(n));
}

void *
calloc(size_t n, size_t size)
{
    return no_memory() ? NULL : out(REAL(calloc)(n, size));
}

void *
realloc(void *old, size_t n)
{
    void *p;

    if (no_memory()) {
        return NULL;
    }
    p = REAL(realloc)(old, n);
    faults->alive += (old == NULL) - (old != NULL && n == 0);
    return p;
}

void
free(void *p)
{
    faults->alive -= p != NULL;
    REAL(free)(p);
}

char *
strndup(const char *text, size_t most)
{
    size_t n = strnlen(text, most);
    char *p = no_memory() ? NULL : out(REAL(malloc)(n + 1));

    if (p != NULL) {
        memcpy(p, text, n);
        p[n] = '\0';
    }
    return p;
}

char *
strdup(const char *text)
{
    size_t n = strlen(text);
    char *p = no_memory() ? NULL : out(REAL(malloc)(n + 1));

    return p != NULL ? memcpy(p, text, n + 1) : NULL;
}

/* ---- system calls ---- */

/* Pipes and pairs inside the process: libevent's, for signals. They never fail here. */
static bool own_end[1024];

static int
note_ends(int result, const int fd[2])
{
    for (int i = 0; i < 2 && result == 0; i++) {
        if (fd[i] >= 0 && fd[i] < 1024) {
            own_end[fd[i]] = true;
        }
    }
    return result;
}

static bool
io_fails(int fd, enum family family)
{
    return fd > 2 && (fd >= 1024 || !own_end[fd]) && fails(family);
}

/* The next function of that name: libc's, or the sanitizer's in front of it. */
#define NEXT(type, name, ...)                                                                                         \
    static type (*next)(__VA_ARGS__);                                                                                 \
    if (next == NULL) {                                                                                               \
        inside = true;                                                                                                \
        *(void **)(&next) = dlsym(RTLD_NEXT, name);                                                                   \
        inside = false;                                                                                               \
    }

ssize_t
read(int fd, void *p, size_t n)
{
    NEXT(ssize_t, "read", int, void *, size_t)
    return io_fails(fd, READ) ? -1 : next(fd, p, n);
}

ssize_t
readv(int fd, const struct iovec *v, int n)
{
    NEXT(ssize_t, "readv", int, const struct iovec *, int)
    return io_fails(fd, READ) ? -1 : next(fd, v, n);
}

ssize_t
recv(int fd, void *p, size_t n, int flags)
{
    NEXT(ssize_t, "recv", int, void *, size_t, int)
    return io_fails(fd, READ) ? -1 : next(fd, p, n, flags);
}

ssize_t
write(int fd, const void *p, size_t n)
{
    NEXT(ssize_t, "write", int, const void *, size_t)
    return io_fails(fd, WRITE) ? -1 : next(fd, p, n);
}

ssize_t
writev(int fd, const struct iovec *v, int n)
{
    NEXT(ssize_t, "writev", int, const struct iovec *, int)
    return io_fails(fd, WRITE) ? -1 : next(fd, v, n);
}

ssize_t
send(int fd, const void *p, size_t n, int flags)
{
    NEXT(ssize_t, "send", int, const void *, size_t, int)
    return io_fails(fd, WRITE) ? -1 : next(fd, p, n, flags);
}

ssize_t
sendmsg(int fd, const struct msghdr *m, int flags)
{
    NEXT(ssize_t, "sendmsg", int, const struct msghdr *, int)
    return io_fails(fd, WRITE) ? -1 : next(fd, m, flags);
}

int
accept4(int fd, struct sockaddr *a, socklen_t *n, int flags)
{
    NEXT(int, "accept4", int, struct sockaddr *, socklen_t *, int)
    return fails(ACCEPT) ? -1 : next(fd, a, n, flags);
}

int
connect(int fd, const struct sockaddr *a, socklen_t n)
{
    NEXT(int, "connect", int, const struct sockaddr *, socklen_t)
    return fails(CONNECT) ? -1 : next(fd, a, n);
}

int
epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
    NEXT(int, "epoll_ctl", int, int, int, struct epoll_event *)
    return op == EPOLL_CTL_ADD && fails(EPOLL_CTL) ? -1 : next(ep, op, fd, ev);
}

int
epoll_wait(int ep, struct epoll_event *ev, int n, int ms)
{
    NEXT(int, "epoll_wait", int, struct epoll_event *, int, int)
    return fails(EPOLL_WAIT) ? -1 : next(ep, ev, n, ms);
}

int
socket(int family, int type, int protocol)
{
    NEXT(int, "socket", int, int, int)
    return fails(SOCKET) ? -1 : next(family, type, protocol);
}

int
setsockopt(int fd, int level, int name, const void *p, socklen_t n)
{
    NEXT(int, "setsockopt", int, int, int, const void *, socklen_t)
    return fails(SETSOCKOPT) ? -1 : next(fd, level, name, p, n);
}

ssize_t
getrandom(void *p, size_t n, unsigned flags)
{
    NEXT(ssize_t, "getrandom", void *, size_t, unsigned)
    return fails(GETRANDOM) ? -1 : next(p, n, flags);
}

static mode_t
mode_of(int flags, va_list more)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
}

int
open(const char *path, int flags, ...)
{
    NEXT(int, "open", const char *, int, mode_t)
    va_list more;
    mode_t mode;

    va_start(more, flags);
    mode = mode_of(flags, more);
    va_end(more);
    return fails(OPEN) ? -1 : next(path, flags, mode);
}

int
open64(const char *path, int flags, ...)
{
    NEXT(int, "open64", const char *, int, mode_t)
    va_list more;
    mode_t mode;

    va_start(more, flags);
    mode = mode_of(flags, more);
    va_end(more);
    return fails(OPEN) ? -1 : next(path, flags, mode);
}

int
eventfd(unsigned count, int flags)
{
    NEXT(int, "eventfd", unsigned, int)
    return fails(EVENTFD) ? -1 : next(count, flags);
}

int
timerfd_create(int clock, int flags)
{
    NEXT(int, "timerfd_create", int, int)
    return fails(EVENTFD) ? -1 : next(clock, flags);
}

int
epoll_create1(int flags)
{
    NEXT(int, "epoll_create1", int)
    return fails(EVENTFD) ? -1 : next(flags);
}

int
pipe2(int fd[2], int flags)
{
    NEXT(int, "pipe2", int[2], int)
    return fails(EVENTFD) ? -1 : note_ends(next(fd, flags), fd);
}

int
socketpair(int family, int type, int protocol, int fd[2])
{
    NEXT(int, "socketpair", int, int, int, int[2])
    return fails(EVENTFD) ? -1 : note_ends(next(family, type, protocol, fd), fd);
}
