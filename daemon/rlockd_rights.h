/*
 * rlockd_rights.h -- `rlockd -t`: whether the user at Redis may use keys that no rule gives.
 */
#ifndef RLOCKD_RIGHTS_H
#define RLOCKD_RIGHTS_H

#include "conf/conf.h"

/* Says so on stderr, if Redis answers at once; a configuration is no worse for it. Connects, reads, writes nothing. */
void rights_test(const struct conf *cf);

#endif
