/*
 * rlockd_rights.h -- `rlockd -t`: the files of TLS, and whether the user at Redis may use keys that no rule gives.
 */
#ifndef RLOCKD_RIGHTS_H
#define RLOCKD_RIGHTS_H

#include <stdbool.h>

#include "conf/conf.h"

/*
 * Says so on stderr; of rights if Redis answers at once, and a configuration is no worse for them. Connects, reads,
 * writes nothing. False: the files of TLS will not do.
 */
bool rights_test(const struct conf *cf);

#endif
