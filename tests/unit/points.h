/*
 * points.h -- included before every unit test (Makefile). Check writes each assertion that holds into a file, to be
 * able to say of a crash behind which one it was: a write for each of millions, most of what many tests did. A crash is
 * told better by `make asan`, with a stack.
 */
#ifndef RLOCKD_TESTS_POINTS_H
#define RLOCKD_TESTS_POINTS_H

#include <check.h>

#define _mark_point(file, line) ((void)0)

#endif
