/*
 * version.h -- the version, in one place.
 */
#ifndef RLOCKD_VERSION_H
#define RLOCKD_VERSION_H

#define RLOCKD_VERSION "0.1.0"

#endif
