/* A model service for the proxy benchmark: `upstream SECONDS`. Prints its port, then serves until the time is over.
 *
 * It speaks chat completions, streamed and not, and answers everything else with an empty object. What to say stands
 * in the request, somewhere in its text:
 *     @burst:N@       N chunks, one write each, as fast as they go
 *     @paced:N:US@    N chunks, US microseconds apart
 *     @call@          a call of the tool `get_weather`: natively where the request has `tools`, else as text in the
 *                     fence that the request asks for
 * No two answers are the same: ids and arguments carry a number. Each streamed chunk carries the time at which it was
 * written. One thread, one epoll, no copy of what it has sent.
 */

#include "proxy_wire.h"

#define MOST_CONNECTIONS 16384
#define ROOM (1 << 20)

#define CHUNK_HEAD                                                                                                     \
    "{\"id\":\"chatcmpl-%012ld\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,"                         \
    "\"model\":\"some-model-7b\",\"choices\":[{\"index\":0,\"delta\":"
#define CHUNK_TAIL ",\"logprobs\":null,\"finish_reason\":"
#define WHOLE_HEAD                                                                                                     \
    "{\"id\":\"chatcmpl-%012ld\",\"object\":\"chat.completion\",\"created\":1790000000,"                               \
    "\"model\":\"some-model-7b\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
#define USAGE "\"usage\":{\"prompt_tokens\":30,\"completion_tokens\":6,\"total_tokens\":36}}"
#define TEXT "\"It rains in Paris, and a coat is what you should wear.\""
#define ARGUMENTS "{\\\"city\\\": \\\"Paris\\\", \\\"days\\\": %ld}"

struct connection {
    int fd;
    char *in;      /* what has come of a request */
    size_t size;
    char *out;     /* what could not be written yet */
    size_t out_size;
    long number;   /* of the answer under way */
    int left;      /* chunks of a paced stream that are still to come */
    uint64_t due, every;
    int paced;     /* where it stands among the paced streams, from 1; 0 where it is none */
};

static int poller;
static struct connection *connections[MOST_CONNECTIONS];
static struct connection *paced_streams[MOST_CONNECTIONS];
static int paced_count;
static long answers;

static void watch(struct connection *c, int writing) {
    struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.fd = c->fd};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
}

static void begin_pace(struct connection *c) {
    paced_streams[paced_count++] = c;
    c->paced = paced_count;
}

static void end_pace(struct connection *c) {
    if (!c->paced) return;
    struct connection *last = paced_streams[--paced_count];
    paced_streams[c->paced - 1] = last;
    last->paced = c->paced;
    c->paced = 0;
}

static void drop(struct connection *c) {
    end_pace(c);
    connections[c->fd] = NULL;
    close(c->fd);
    free(c->in);
    free(c->out);
    free(c);
}

static void say(struct connection *c, const char *data, size_t size) {
    if (!c->out_size) {
        ssize_t sent = send(c->fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return;
        if (sent > 0) data += sent, size -= (size_t)sent;
        if (!size) return;
        watch(c, 1);
    }
    c->out = realloc(c->out, c->out_size + size);
    memcpy(c->out + c->out_size, data, size);
    c->out_size += size;
}

static void flush(struct connection *c) {
    ssize_t sent = send(c->fd, c->out, c->out_size, MSG_NOSIGNAL);
    if (sent <= 0) return;
    memmove(c->out, c->out + sent, c->out_size - (size_t)sent);
    c->out_size -= (size_t)sent;
    if (!c->out_size) watch(c, 0);
}

/* One server-sent event, as one chunk of HTTP. */
static void event(struct connection *c, const char *data) {
    char wire[4096];
    size_t size = strlen(data) + 8;
    int n = snprintf(wire, sizeof wire, "%zx\r\ndata: %s\n\n\r\n", size, data);
    say(c, wire, (size_t)n);
}

/* A chunk with this delta, which is JSON. */
static void delta(struct connection *c, const char *text) {
    char data[2048];
    snprintf(data, sizeof data, CHUNK_HEAD "%s" CHUNK_TAIL "null}]}", c->number, text);
    event(c, data);
}

static void stamped(struct connection *c) {
    char data[512];
    snprintf(data, sizeof data, CHUNK_HEAD "{\"content\":\"t=%0*llu words \"}" CHUNK_TAIL "null}]}", c->number,
             STAMP_DIGITS, (unsigned long long)(now_ns() % 10000000000000000ull));
    event(c, data);
}

static void end_stream(struct connection *c, const char *reason) {
    char data[512];
    snprintf(data, sizeof data, CHUNK_HEAD "{}" CHUNK_TAIL "\"%s\"}]}", c->number, reason);
    event(c, data);
    snprintf(data, sizeof data,
             "{\"id\":\"chatcmpl-%012ld\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,"
             "\"model\":\"some-model-7b\",\"choices\":[]," USAGE,
             c->number);
    event(c, data);
    event(c, "[DONE]");
    say(c, "0\r\n\r\n", 5);
    end_pace(c);
}

static void begin_stream(struct connection *c) {
    static const char head[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                               "transfer-encoding: chunked\r\n\r\n";
    say(c, head, sizeof head - 1);
    delta(c, "{\"role\":\"assistant\",\"content\":\"\"}");
}

static void whole(struct connection *c, const char *message, const char *reason) {
    char body[2048], wire[4096];
    int size = snprintf(body, sizeof body, WHOLE_HEAD "%s},\"logprobs\":null,\"finish_reason\":\"%s\"}]," USAGE, c->number,
                        message, reason);
    int n = snprintf(wire, sizeof wire,
                     "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", size, body);
    say(c, wire, (size_t)n);
}

/* The answer that is a call, as the request wants it. */
static void call(struct connection *c, const char *body, int stream) {
    char text[512], data[640];
    if (strstr(body, "\"tools\":")) {
        snprintf(text, sizeof text,
                 "[{%s\"id\":\"call_%ld\",\"type\":\"function\",\"function\":"
                 "{\"name\":\"get_weather\",\"arguments\":\"" ARGUMENTS "\"}}]",
                 stream ? "\"index\":0," : "", c->number, c->number);
        if (!stream) {
            snprintf(data, sizeof data, "null,\"tool_calls\":%s", text);
            whole(c, data, "tool_calls");
            return;
        }
        begin_stream(c);
        snprintf(data, sizeof data, "{\"tool_calls\":%s}", text);
        delta(c, data);
        end_stream(c, "tool_calls");
        return;
    }
    const char *asked = NULL, *at = body;
    while ((at = strstr(at, "json action "))) asked = at += 12;
    char mark[16] = "";
    size_t length = asked ? strspn(asked, "abcdefghijklmnopqrstuvwxyz0123456789") : 0;
    if (length && length < sizeof mark - 1) snprintf(mark, sizeof mark, " %.*s", (int)length, asked);
    snprintf(text, sizeof text,
             "\"```json action%s\\n{\\\"tool\\\": \\\"get_weather\\\", \\\"parameters\\\": " ARGUMENTS "}\\n```\"", mark,
             c->number);
    if (!stream) {
        whole(c, text, "stop");
        return;
    }
    begin_stream(c);
    snprintf(data, sizeof data, "{\"content\":%s}", text);
    delta(c, data);
    end_stream(c, "stop");
}

static void answer(struct connection *c, const char *body) {
    int stream = strstr(body, "\"stream\":true") || strstr(body, "\"stream\": true");
    int count = 0, every = 0;
    c->number = ++answers;
    const char *burst = strstr(body, "@burst:"), *paced = strstr(body, "@paced:");
    if (strstr(body, "@call@")) {
        call(c, body, stream);
    } else if (stream && burst && sscanf(burst, "@burst:%d@", &count) == 1) {
        begin_stream(c);
        for (int i = 0; i < count; i++) stamped(c);
        end_stream(c, "stop");
    } else if (stream && paced && sscanf(paced, "@paced:%d:%d@", &count, &every) == 2) {
        begin_stream(c);
        c->left = count;
        c->every = (uint64_t)every * 1000;
        c->due = now_ns() + c->every;
        begin_pace(c);
    } else if (stream) {
        begin_stream(c);
        delta(c, "{\"content\":" TEXT "}");
        end_stream(c, "stop");
    } else {
        whole(c, TEXT, "stop");
    }
}

/* Every whole request in the buffer. */
static void requests(struct connection *c) {
    for (;;) {
        char *end = memmem(c->in, c->size, "\r\n\r\n", 4);
        if (!end) return;
        *end = 0;
        char *length = strcasestr(c->in, "content-length:");
        size_t head = (size_t)(end - c->in) + 4, body = length ? strtoul(length + 15, NULL, 10) : 0;
        if (!length && strcasestr(c->in, "transfer-encoding:")) {
            /* Chunked: whole when the last chunk is there. */
            char *last = memmem(c->in + head, c->size - head, "\r\n0\r\n\r\n", 7);
            if (!last) {
                *end = '\r';
                return;
            }
            body = (size_t)(last + 7 - (c->in + head));
        }
        if (c->size < head + body) {
            *end = '\r';
            return;
        }
        int model = !strncmp(c->in, "POST ", 5);
        char kept = c->in[head + body];
        c->in[head + body] = 0;
        if (model) {
            answer(c, c->in + head);
        } else {
            static const char other[] = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            say(c, other, sizeof other - 1);
        }
        c->in[head + body] = kept;
        memmove(c->in, c->in + head + body, c->size - head - body);
        c->size -= head + body;
    }
}

static void readable(struct connection *c) {
    ssize_t got = recv(c->fd, c->in + c->size, ROOM - 1 - c->size, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        drop(c);
        return;
    }
    if (got > 0) {
        c->size += (size_t)got;
        requests(c);
    }
}

static void arrivals(int listener) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= MOST_CONNECTIONS) {
            close(fd);
            continue;
        }
        prompt(fd);
        struct connection *c = connections[fd] = calloc(1, sizeof *c);
        c->fd = fd;
        c->in = malloc(ROOM);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
    }
}

/* Write what is due of the paced streams; returns the nanoseconds until the next. */
static uint64_t pace(void) {
    uint64_t now = now_ns(), next = now + 100000000u;
    for (int i = paced_count - 1; i >= 0; i--) {
        struct connection *c = paced_streams[i];
        if (c->due <= now) {
            stamped(c);
            c->due += c->every;
            if (--c->left == 0) {
                end_stream(c, "stop"); /* the last of the list, which has been seen, takes its place */
                continue;
            }
        }
        if (c->due < next) next = c->due;
    }
    now = now_ns();
    return next <= now ? 0 : next - now;
}

int main(int argc, char **argv) {
    uint64_t until = now_ns() + (uint64_t)(argc > 1 ? atoi(argv[1]) : 600) * 1000000000u;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1024)) die("listen");
    getsockname(listener, (struct sockaddr *)&at, &size);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    struct epoll_event ready[256];
    while (now_ns() < until) {
        uint64_t wait = pace();
        struct timespec longest = {.tv_sec = 0, .tv_nsec = (long)wait};
        struct pollfd any = {.fd = poller, .events = POLLIN};
        if (wait) ppoll(&any, 1, &longest, NULL);
        int n = epoll_wait(poller, ready, 256, 0);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                arrivals(listener);
                continue;
            }
            if (connections[fd] && ready[i].events & EPOLLOUT) flush(connections[fd]);
            if (connections[fd] && ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(connections[fd]);
        }
    }
    return 0;
}
