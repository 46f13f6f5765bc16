/* What both ends of the load share: the clock, sockets, growing buffers. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_EVENTS 512

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int tcp_socket(void) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0) die("socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void watch(int epoll, int fd, uint32_t events, void *owner) {
    struct epoll_event event = {.events = events, .data.ptr = owner};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
}

static void many_files(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    signal(SIGPIPE, SIG_IGN);
}

/* The body of a message of `size` bytes once it is whole, by its length or by its last chunk, else NULL. */
static const char *whole_body(const char *message, size_t size) {
    const char *body = strstr(message, "\r\n\r\n"), *length = strcasestr(message, "\ncontent-length:");
    if (!body) return NULL;
    body += 4;
    int whole = length && length < body ? message + size >= body + strtoul(length + 16, NULL, 10)
                                        : memcmp(message + size - 7, "\r\n0\r\n\r\n", 7) == 0;
    return whole ? body : NULL;
}

/* Wait until `until` (ns) or an event, whichever is first.
 *
 * `awake` waits without sleeping. Where answers come at the speed of the proxy, its peers have the time to fall asleep
 * only when it is slow, and over loopback the one who writes pays for waking them: a price without a counterpart in a
 * network, and not paid by the faster proxy. */
static int wait_events(int epoll, struct epoll_event *events, int64_t until, int awake) {
    int64_t left = until - now_ns();
    struct timespec timeout = {0, 0};
    if (left > 0 && !awake) timeout = (struct timespec){left / 1000000000LL, left % 1000000000LL};
    int count;
    while ((count = epoll_pwait2(epoll, events, MAX_EVENTS, &timeout, NULL)) == 0 && now_ns() < until) sched_yield();
    return count < 0 ? 0 : count;
}
