/* Keeps a number of requests open, one per connection.
 * usage: load PORT CONNECTIONS stream|whole|resting RAMP_S MEASURE_S [HEADER]
 *
 * Connections start spread over RAMP_S; each sends its next request when the answer has ended. What arrives during the
 * MEASURE_S after the ramp is counted; then nothing new starts, whole answers finish and streams are left. `resting` asks
 * for whole answers and sleeps until they come. HEADER goes with each request. Prints `measuring` when the measured part
 * begins and one JSON line at the end; on standard error what there was of the first answer that broke. */
#include "common.h"

#define USAGE "usage: load PORT CONNECTIONS stream|whole|resting RAMP_S MEASURE_S [HEADER]\n"
#define LATENCIES 4000000
#define ANSWER 8192
#define BUFFER (256 * 1024)

typedef struct {
    int fd, busy, done, pending;
    int64_t start_at, asked_at, first_at;
    char answer[ANSWER]; /* of a stream its unfinished line */
    size_t filled;
} Connection;

static int epoll, streaming, awake;
static int64_t measure_from, measure_to;
static struct sockaddr_in target;
static char request[2048];
static size_t request_size;
static long events_measured, answers_measured, answers, broken;
static uint32_t *delays, *firsts; /* tenths of microseconds */
static size_t delay_count, first_count;

static void note(uint32_t *values, size_t *count, int64_t ns) {
    if (*count < LATENCIES) values[(*count)++] = ns < 0 ? 0 : (uint32_t)(ns / 100);
}

static int measuring(int64_t at) { return at >= measure_from && at < measure_to; }

static void ask(Connection *c) {
    if (c->fd < 0) {
        c->fd = tcp_socket();
        if (connect(c->fd, (void *)&target, sizeof target) < 0 && errno != EINPROGRESS) die("connect");
        watch(epoll, c->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, c);
        c->pending = 1; /* sent when the connection is established */
    } else if (send(c->fd, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) {
        c->pending = 1;
    }
    c->busy = 1;
    c->done = 0;
    c->filled = 0;
    c->asked_at = now_ns();
    c->first_at = 0;
}

static void end(Connection *c, int good, int64_t at) {
    c->busy = 0;
    answers += good;
    broken += !good;
    if (good && measuring(at)) answers_measured++;
    if (!good) {
        if (broken == 1) fprintf(stderr, "the first that broke: %.*s\n", (int)c->filled, c->answer);
        close(c->fd);
        c->fd = -1;
    }
    if (at < measure_to) ask(c);
}

static void take_line(Connection *c, int64_t at) {
    c->answer[c->filled] = 0;
    char *sent = strstr(c->answer, "t=");
    if (strncmp(c->answer, "data: ", 6) == 0) {
        if (!sent) c->done = 1; /* [DONE] */
        else if (measuring(at)) {
            events_measured++;
            note(delays, &delay_count, at - atoll(sent + 2));
        }
        if (sent && !c->first_at) {
            c->first_at = at;
            if (measuring(at)) note(firsts, &first_count, at - c->asked_at);
        }
    } else if (strcmp(c->answer, "0\r") == 0 && c->done) {
        c->done = 2;
    } else if (c->done == 2) {
        end(c, 1, at);
    }
    c->filled = 0;
}

static void take_whole(Connection *c, const char *bytes, size_t size, int64_t at) {
    if (c->filled + size >= sizeof c->answer) {
        end(c, 0, at);
        return;
    }
    memcpy(c->answer + c->filled, bytes, size);
    c->answer[c->filled += size] = 0;
    if (whole_body(c->answer, c->filled)) end(c, memcmp(c->answer, "HTTP/1.1 200", 12) == 0, at);
}

static void take(Connection *c, const char *bytes, size_t size) {
    int64_t at = now_ns();
    if (!streaming) {
        take_whole(c, bytes, size, at);
        return;
    }
    for (size_t i = 0; i < size && c->fd >= 0; i++) {
        if (bytes[i] == '\n') take_line(c, at);
        else if (c->filled < sizeof c->answer - 1) c->answer[c->filled++] = bytes[i];
    }
}

static void serve(Connection *c, uint32_t happened) {
    static char buffer[BUFFER];
    if (c->pending && (happened & EPOLLOUT)) {
        c->pending = 0;
        if (send(c->fd, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) c->pending = 1;
    }
    while (c->fd >= 0) {
        ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
        if (got > 0) take(c, buffer, got);
        else if (got < 0 && errno == EAGAIN) return;
        else {
            if (c->busy) end(c, 0, now_ns());
            else close(c->fd), c->fd = -1;
            return;
        }
    }
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile(uint32_t *values, size_t count, double share) {
    return count ? values[(size_t)(share * (count - 1))] / 10.0 : -1;
}

static void report(double seconds) {
    qsort(delays, delay_count, sizeof *delays, ascending);
    qsort(firsts, first_count, sizeof *firsts, ascending);
    printf("{\"events\":%ld,\"answers_measured\":%ld,\"answers\":%ld,\"broken\":%ld,\"seconds\":%.3f,"
           "\"delay_us\":{\"p50\":%.1f,\"p99\":%.1f},\"ttft_us\":{\"p50\":%.1f,\"p99\":%.1f}}\n",
           events_measured, answers_measured, answers, broken, seconds, percentile(delays, delay_count, .5),
           percentile(delays, delay_count, .99), percentile(firsts, first_count, .5), percentile(firsts, first_count, .99));
}

int main(int argc, char **argv) {
    if (argc != 6 && argc != 7) return fputs(USAGE, stderr), 2;
    many_files();
    target = loopback(atoi(argv[1]));
    int count = atoi(argv[2]), open = 1, announced = 0;
    streaming = strcmp(argv[3], "stream") == 0;
    awake = strcmp(argv[3], "whole") == 0;
    int64_t begin = now_ns(), ramp = (int64_t)(atof(argv[4]) * 1e9);
    measure_from = begin + ramp;
    measure_to = measure_from + (int64_t)(atof(argv[5]) * 1e9);
    char body[512];
    int size = snprintf(body, sizeof body, "{\"model\":\"chat\",\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful "
        "assistant that answers briefly and precisely.\"},{\"role\":\"user\",\"content\":\"What is the capital of France, and "
        "since when has it been the capital?\"}],\"max_tokens\":64,\"temperature\":0.7,\"stream\":%s}", streaming ? "true" : "false");
    request_size = snprintf(request, sizeof request, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nContent-Type: "
        "application/json\r\nAccept: */*\r\nUser-Agent: load/1\r\n%s%sContent-Length: %d\r\n\r\n%s", argv[1],
        argc == 7 ? argv[6] : "", argc == 7 ? "\r\n" : "", size, body);
    epoll = epoll_create1(0);
    delays = malloc(LATENCIES * sizeof *delays);
    firsts = malloc(LATENCIES * sizeof *firsts);
    Connection *all = calloc(count, sizeof *all);
    for (int i = 0; i < count; i++) all[i].fd = -1, all[i].start_at = begin + ramp * i / count;
    struct epoll_event events[MAX_EVENTS];
    for (int started = 0; open || now_ns() < measure_to;) {
        int64_t now = now_ns();
        for (; started < count && all[started].start_at <= now; started++) ask(&all[started]);
        if (!announced && now >= measure_from) announced = 1, puts("measuring"), fflush(stdout);
        int64_t next = started < count ? all[started].start_at : announced ? now + 20000000LL : measure_from;
        int happened = wait_events(epoll, events, next, awake);
        for (int i = 0; i < happened; i++) serve(events[i].data.ptr, events[i].events);
        if (now_ns() < measure_to) continue;
        open = 0;
        for (int i = 0; i < count && !streaming; i++) open += all[i].busy;
    }
    report((measure_to - measure_from) / 1e9);
    return 0;
}
