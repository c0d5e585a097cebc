/*
 * version.h -- the versions that the daemon reports, in one place.
 */
#ifndef RLOCKD_VERSION_H
#define RLOCKD_VERSION_H

#define RLOCKD_VERSION "0.1.0"
#define REDIS_VERSION_SPOKEN "7.2.0" /* of Redis, as which rlockd answers connection commands; clients check it */

#endif
