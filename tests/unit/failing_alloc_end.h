/*
 * failing_alloc_end.h -- here failing_alloc.h ends.
 */
#undef malloc
#undef calloc
#undef realloc
#undef free
