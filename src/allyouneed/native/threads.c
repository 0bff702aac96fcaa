/* Notices that the process was forked. */

#include "threads.h"

int is_forked;

#ifdef _OPENMP
#include <pthread.h>
#include <stddef.h>

static void notice_fork(void) {
    is_forked = 1;
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, notice_fork);
}
#endif
