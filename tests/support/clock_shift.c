/* Shifts the wall clock of a process by as many seconds as CLOCK_SHIFT_SECONDS says; other clocks stay as they are.
 *
 *     cc -shared -fPIC -o clock_shift.so clock_shift.c
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    const char *seconds = getenv("CLOCK_SHIFT_SECONDS");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += shift();
    }
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int status = (int)syscall(SYS_gettimeofday, now, zone);
    if (status == 0 && now) {
        now->tv_sec += shift();
    }
    return status;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
