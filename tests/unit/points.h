/*
 * points.h -- included before every unit test (Makefile). Check writes a file at each assertion that holds, to name the
 * last one before a crash: millions of writes, which took most of the time of many tests. `make asan` explains a crash
 * better, with a stack.
 */
#ifndef RLOCKD_TESTS_POINTS_H
#define RLOCKD_TESTS_POINTS_H

#include <check.h>

#define _mark_point(file, line) ((void)0)

#endif
