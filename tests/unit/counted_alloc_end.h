/*
 * counted_alloc_end.h -- here counted_alloc.h ends.
 */
#undef mem_alloc
#undef mem_zalloc
#undef mem_array
#undef mem_realloc
#undef malloc
#undef calloc
#undef realloc
#undef free
