/* A disk and a clock that fail when they are told to: preloaded into a process of the service.

   Each call looks at a file of two words, FAULTS_FILE: an errno that writes below FAULTS_FOLDER
   fail with ("0": none), how many of them still succeed before, and the seconds that the clock of
   the day is off. The file is mapped, so that whoever changes it changes what the next call does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int error, spared;
    long long clock_off_s;
};
static struct faults none, *told = &none;
static const char *folder = "";

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_FILE");
    if (getenv("FAULTS_FOLDER")) folder = getenv("FAULTS_FOLDER");
    int file = path ? open(path, O_RDWR) : -1;
    if (file < 0) return;
    void *found = mmap(0, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) told = found;
    close(file);
}

static int below(const char *path) {
    return *folder && path && !strncmp(path, folder, strlen(folder));
}

static int is_kept(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Whether a call that changes a file fails now. */
static int fails(int kept) {
    if (!told->error || !kept) return 0;
    if (__atomic_fetch_sub(&told->spared, 1, __ATOMIC_SEQ_CST) > 0) return 0;
    errno = told->error;
    return 1;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *data, size_t size) {
    REAL(write);
    return told->error && fails(is_kept(file)) ? -1 : real(file, data, size);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    REAL(pwrite);
    return told->error && fails(is_kept(file)) ? -1 : real(file, data, size, at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    return told->error && fails(is_kept(file)) ? -1 : real(file, data, size, at);
}
int fsync(int file) {
    REAL(fsync);
    return told->error && fails(is_kept(file)) ? -1 : real(file);
}
int fdatasync(int file) {
    REAL(fdatasync);
    return told->error && fails(is_kept(file)) ? -1 : real(file);
}
int ftruncate(int file, off_t size) {
    REAL(ftruncate);
    return told->error && fails(is_kept(file)) ? -1 : real(file, size);
}
int ftruncate64(int file, off64_t size) {
    REAL(ftruncate64);
    return told->error && fails(is_kept(file)) ? -1 : real(file, size);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    return told->error && fails(below(to)) ? -1 : real(from, to);
}

static int refused(const char *path, int flags) {
    return told->error && flags & (O_WRONLY | O_RDWR | O_CREAT) && fails(below(path));
}
int open(const char *path, int flags, ...) {
    REAL(open);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return refused(path, flags) ? -1 : real(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    REAL(open64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return refused(path, flags) ? -1 : real(path, flags, mode);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int found = real(clock, now);
    if (!found && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += told->clock_off_s;
    return found;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    REAL(gettimeofday);
    int found = real(now, zone);
    if (!found) now->tv_sec += told->clock_off_s;
    return found;
}
time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept) *kept = now.tv_sec;
    return now.tv_sec;
}
