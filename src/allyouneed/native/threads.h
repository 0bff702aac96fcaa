/* Threads in a process that was forked. */

#ifndef ALLYOUNEED_THREADS_H
#define ALLYOUNEED_THREADS_H

/* Whether this process was forked after the kernels were loaded. It has none of the threads that OpenMP started before
the fork, and a parallel region of several threads would wait for them forever, so regions have one thread. */
extern __attribute__((visibility("hidden"))) int is_forked;

#endif
