/*
 * rlockd_rights.h -- `rlockd -t`: the files of TLS, and whether the user at Redis may use keys of no rule.
 */
#ifndef RLOCKD_RIGHTS_H
#define RLOCKD_RIGHTS_H

#include <stdbool.h>

#include "conf/conf.h"

/*
 * Writes to stderr what is wrong with the files, and, if Redis answers within a second, advice about the rights. False
 * only if the files of TLS cannot be used. Reads from Redis, and writes nothing there.
 */
bool rlockd_rights_test(const struct conf *cf);

#endif
