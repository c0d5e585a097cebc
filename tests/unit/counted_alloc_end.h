/*
 * counted_alloc_end.h -- ends the part of a test that counted_alloc.h begins.
 */
#undef mem_alloc
#undef mem_zalloc
#undef mem_array
#undef mem_realloc
#undef malloc
#undef calloc
#undef realloc
#undef free
