/* A model server that computes nothing.  usage: upstream PORT EVENTS INTERVAL_US [resting]
 *
 * A body with `"stream":true` is answered by EVENTS chat chunks, one per INTERVAL_US, then [DONE]; every chunk carries
 * the time it was sent. Any other body, and a GET, is answered by one JSON document. `resting` always sleeps between
 * requests. */
#include "common.h"

#define REQUEST_SIZE (128 * 1024)
#define STAY_AWAKE 20000000LL /* ns after a whole answer */

typedef struct Connection {
    int fd, sent, streaming;
    size_t received;
    int64_t due;
    struct Connection *next; /* in the queue of open streams, ordered by `due` because all intervals are equal */
    char request[REQUEST_SIZE + 1];
} Connection;

static int events_per_stream;
static int64_t interval, whole_at; /* when the last whole answer was given */
static Connection *first, *last;

static const char DOCUMENT[] =
    "{\"id\":\"chatcmpl-x\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,"
    "\"message\":{\"role\":\"assistant\",\"content\":\"The capital of France is Paris. It has been the capital for many "
    "centuries and is the largest city in the country.\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{"
    "\"prompt_tokens\":21,\"completion_tokens\":24,\"total_tokens\":45}}";

static int send_all(Connection *c, const char *bytes, size_t size) {
    ssize_t sent = send(c->fd, bytes, size, MSG_NOSIGNAL);
    return sent == (ssize_t)size ? 0 : -1; /* a reader that does not keep up is dropped and shows as broken */
}

static void enqueue(Connection *c) {
    c->next = NULL;
    if (last) last->next = c;
    else first = c;
    last = c;
}

static int send_event(Connection *c) {
    char data[512], chunk[640];
    int end = c->sent == events_per_stream - 1;
    int size = snprintf(data, sizeof data,
        "data: {\"id\":\"chatcmpl-x\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\","
        "\"system_fingerprint\":\"A\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"t=%lld \"},\"logprobs\":null,"
        "\"finish_reason\":%s}]}\n\n", (long long)now_ns(), end ? "\"stop\"" : "null");
    int length = snprintf(chunk, sizeof chunk, "%x\r\n%s\r\n%s", size, data, end ? "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n" : "");
    c->sent++;
    c->streaming = !end;
    return send_all(c, chunk, length);
}

static int answer(Connection *c, const char *body) {
    char head[256];
    if (!strstr(body, "\"stream\":true") && !strstr(body, "\"stream\": true")) {
        int size = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
            sizeof DOCUMENT - 1);
        char whole[sizeof head + sizeof DOCUMENT];
        memcpy(whole, head, size);
        memcpy(whole + size, DOCUMENT, sizeof DOCUMENT - 1);
        whole_at = now_ns();
        return send_all(c, whole, size + sizeof DOCUMENT - 1);
    }
    static const char stream_head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
        "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
    if (send_all(c, stream_head, sizeof stream_head - 1) < 0) return -1;
    c->sent = 0;
    c->due = now_ns() + interval;
    if (send_event(c) < 0) return -1;
    if (c->streaming) enqueue(c);
    return 0;
}

static int receive(Connection *c) {
    for (;;) {
        ssize_t got = recv(c->fd, c->request + c->received, REQUEST_SIZE - c->received, 0);
        if (got == 0) return -1;
        if (got < 0) break;
        c->received += got;
        if (c->received == REQUEST_SIZE) return -1;
    }
    if (errno != EAGAIN || memcmp(c->request, "PRI ", 4) == 0) return -1; /* HTTP/2 is not spoken here */
    c->request[c->received] = 0;
    int asks = memcmp(c->request, "GET ", 4) == 0; /* about health or models */
    const char *body = asks ? strstr(c->request, "\r\n\r\n") : whole_body(c->request, c->received);
    if (!body) return 0;
    c->received = 0;
    return answer(c, body);
}

static void drop(Connection *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    if (!c->streaming) free(c); /* a streaming one is freed when its turn in the queue comes */
}

static void send_due(void) {
    while (first && first->due <= now_ns()) {
        Connection *c = first;
        first = c->next;
        if (!first) last = NULL;
        if (c->fd < 0) {
            free(c);
            continue;
        }
        if (send_event(c) < 0) {
            c->streaming = 0;
            drop(c);
        } else if (c->streaming) {
            c->due += interval;
            enqueue(c);
        }
    }
}

static void accept_all(int epoll, int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Connection *c = calloc(1, sizeof *c);
        c->fd = fd;
        watch(epoll, fd, EPOLLIN | EPOLLRDHUP, c);
    }
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5) return fprintf(stderr, "usage: upstream PORT EVENTS INTERVAL_US [resting]\n"), 2;
    many_files();
    struct sockaddr_in address = loopback(atoi(argv[1]));
    events_per_stream = atoi(argv[2]);
    interval = atoll(argv[3]) * 1000;
    int one = 1, listener = tcp_socket(), epoll = epoll_create1(0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&address, sizeof address) < 0 || listen(listener, 4096) < 0) die("listen");
    watch(epoll, listener, EPOLLIN, NULL);
    struct epoll_event events[MAX_EVENTS];
    for (;;) {
        int64_t now = now_ns();
        int awake = argc == 4 && !first && now - whole_at < STAY_AWAKE;
        int count = wait_events(epoll, events, first ? first->due : now + (awake ? STAY_AWAKE : 1000000000LL), awake);
        for (int i = 0; i < count; i++) {
            Connection *c = events[i].data.ptr;
            if (!c) accept_all(epoll, listener);
            else if (receive(c) < 0) drop(c);
        }
        send_due();
    }
}
