/* A load generator for the proxy benchmark: `load PORT CLIENTS SECONDS FILE [TURNS [RAMP]]`.
 *
 * FILE holds one HTTP request, head and body. CLIENTS connections send it again and again, each as soon as its last
 * answer is complete, for SECONDS; then it waits for the answers under way. The clients start evenly over RAMP seconds.
 *
 * No two requests are the same: wherever FILE has `#n` and eight digits, each request has its own number there, and
 * wherever it has `#c` and eight digits, the number of its conversation. A client begins a new conversation after TURNS
 * requests, or never if TURNS is 0.
 *
 * Prints one line of JSON: complete answers, errors, the time it took, the time of an answer, and the age of the stamped
 * chunks on arrival, in nanoseconds. One thread, one epoll.
 */

#include "proxy_wire.h"

#define ROOM (1 << 17)
#define FIELD_DIGITS 8
#define FIELD_LIMIT 100000000u
#define MOST_FIELDS 1024
#define MOST_SAMPLES 4000000
/* Answers that are under way at the end may take so long. */
#define GRACE_NS 20000000000u

struct client {
    int fd;
    char in[ROOM];
    size_t size;      /* bytes that are kept */
    uint64_t sent_at;
    long number, asked; /* of the client, and how many requests it has sent */
    int in_body, chunked, bad;
    size_t left;      /* of the body, or of the current chunk with its line end */
    int last;         /* the last chunk has begun */
    char tail[STAMP_DIGITS + 2];
    size_t tail_size; /* the end of the last piece of text, where a stamp may have begun */
};

static char *request;
static size_t request_size;
static size_t fields[MOST_FIELDS]; /* where the digits of the numbers stand in the request */
static int field_count;
static int port, poller;
static long client_count, turns;
static unsigned long first_number; /* from the clock, so that the next run has other numbers */
static long sent, whole, errors, stamps;
static uint64_t until;
static uint64_t *times, *ages;
static size_t time_count, age_count;
static char first_error[200];

static void wrong(const char *what) {
    errors++;
    if (!*first_error) snprintf(first_error, sizeof first_error, "%s", what);
}

static int join(struct client *c) {
    struct sockaddr_in at = loopback(port);
    int room = 2 * ROOM;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (connect(c->fd, (struct sockaddr *)&at, sizeof at)) {
        close(c->fd);
        c->fd = -1;
        return 0;
    }
    prompt(c->fd);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
    return 1;
}

static void find_fields(void) {
    for (size_t at = 0; at + 2 + FIELD_DIGITS <= request_size && field_count < MOST_FIELDS; at++)
        if (request[at] == '#' && (request[at + 1] == 'n' || request[at + 1] == 'c') &&
            strspn(request + at + 2, "0123456789") >= FIELD_DIGITS)
            fields[field_count++] = at + 2;
}

/* Write the numbers of the next request of a client into the request. */
static void number_request(struct client *c) {
    unsigned long conversation = (unsigned long)(c->number + (turns ? c->asked / turns * client_count : 0));
    char counted[FIELD_DIGITS + 1], conversed[FIELD_DIGITS + 1];
    snprintf(counted, sizeof counted, "%0*lu", FIELD_DIGITS, (first_number + (unsigned long)sent) % FIELD_LIMIT);
    snprintf(conversed, sizeof conversed, "%0*lu", FIELD_DIGITS, conversation % FIELD_LIMIT);
    for (int i = 0; i < field_count; i++)
        memcpy(request + fields[i], request[fields[i] - 1] == 'n' ? counted : conversed, FIELD_DIGITS);
    c->asked++;
}

/* Send the whole request; a large one may need more than one call. */
static int send_request(int fd) {
    for (size_t done = 0; done < request_size;) {
        ssize_t now = send(fd, request + done, request_size - done, MSG_NOSIGNAL);
        if (now < 0 && errno != EAGAIN) return 0;
        if (now > 0) done += (size_t)now;
        struct pollfd writable = {.fd = fd, .events = POLLOUT};
        if (done < request_size && poll(&writable, 1, 5000) != 1) return 0;
    }
    return 1;
}

static void ask(struct client *c) {
    c->size = c->left = c->tail_size = 0;
    c->in_body = c->chunked = c->bad = c->last = 0;
    if (now_ns() >= until) {
        if (c->fd >= 0) close(c->fd);
        c->fd = -1;
        return;
    }
    sent++;
    if (c->fd < 0 && !join(c)) {
        wrong("cannot connect");
        return;
    }
    number_request(c);
    c->sent_at = now_ns();
    if (!send_request(c->fd)) wrong("cannot send");
}

static void over(struct client *c, const char *problem) {
    if (problem) {
        wrong(problem);
        close(c->fd);
        c->fd = -1;
    } else {
        whole++;
        if (time_count < MOST_SAMPLES) times[time_count++] = now_ns() - c->sent_at;
    }
    ask(c);
}

/* The stamps in a piece of a body; one that is cut in two is found when its end comes. */
static void look(struct client *c, const char *data, size_t size) {
    char joined[2 * STAMP_DIGITS + 8];
    uint64_t now = now_ns() % 10000000000000000ull;
    for (int round = c->tail_size ? 0 : 1; round < 2; round++) {
        const char *at = data;
        size_t span = size;
        if (round == 0) {
            size_t more = size < STAMP_DIGITS + 1 ? size : STAMP_DIGITS + 1;
            memcpy(joined, c->tail, c->tail_size);
            memcpy(joined + c->tail_size, data, more);
            at = joined;
            span = c->tail_size + more;
        }
        const char *end = at + span;
        while ((at = memmem(at, (size_t)(end - at), "t=", 2)) && at + 2 + STAMP_DIGITS <= end) {
            uint64_t stamp = 0;
            int digits = 0;
            while (digits < STAMP_DIGITS && at[2 + digits] >= '0' && at[2 + digits] <= '9')
                stamp = stamp * 10 + (uint64_t)(at[2 + digits++] - '0');
            if (digits == STAMP_DIGITS) {
                stamps++;
                if (age_count < MOST_SAMPLES && stamp <= now) ages[age_count++] = now - stamp;
            }
            at += 2;
        }
    }
    c->tail_size = size < STAMP_DIGITS + 1 ? size : STAMP_DIGITS + 1;
    memcpy(c->tail, data + size - c->tail_size, c->tail_size);
}

/* The head of an answer; 0 if it is not whole. */
static int head(struct client *c) {
    char *end = memmem(c->in, c->size, "\r\n\r\n", 4);
    if (!end) return 0;
    *end = 0;
    c->bad = strncmp(c->in, "HTTP/1.1 200", 12) != 0;
    if (c->bad && !*first_error) snprintf(first_error, sizeof first_error, "%.*s", 120, c->in);
    char *length = strcasestr(c->in, "\r\ncontent-length:");
    c->chunked = strcasestr(c->in, "\r\ntransfer-encoding: chunked") != NULL;
    c->left = length ? strtoul(length + 17, NULL, 10) : 0;
    size_t used = (size_t)(end - c->in) + 4;
    memmove(c->in, c->in + used, c->size - used);
    c->size -= used;
    c->in_body = 1;
    return 1;
}

/* What stands in the buffer of a chunked body; 1 when the answer is whole. */
static int chunks(struct client *c) {
    size_t pos = 0;
    int done = 0;
    while (pos < c->size && !done) {
        if (c->left) {
            size_t piece = c->size - pos < c->left ? c->size - pos : c->left;
            c->left -= piece;
            size_t end = c->left < 2 ? 2 - c->left : 0; /* of its line end, which may cut a stamp in two */
            if (!c->last && piece > end) look(c, c->in + pos, piece - end);
            pos += piece;
            done = c->last && !c->left;
            continue;
        }
        char *end = memmem(c->in + pos, c->size - pos, "\r\n", 2);
        if (!end) break;
        size_t size = strtoul(c->in + pos, NULL, 16);
        c->last = size == 0;
        c->left = size + 2;
        pos = (size_t)(end - c->in) + 2;
    }
    memmove(c->in, c->in + pos, c->size - pos);
    c->size -= pos;
    return done;
}

static void arrived(struct client *c) {
    ssize_t got = recv(c->fd, c->in + c->size, ROOM - 1 - c->size, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        over(c, "the connection ended before the answer");
        return;
    }
    c->size += (size_t)got;
    c->in[c->size] = 0;
    if (!c->in_body && !head(c)) return;
    int done;
    if (c->chunked) {
        done = chunks(c);
    } else {
        size_t piece = c->size < c->left ? c->size : c->left;
        c->left -= piece;
        c->size = 0;
        done = !c->left;
    }
    if (done) over(c, c->bad ? "a status that is not 200" : NULL);
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void told(const char *name, uint64_t *samples, size_t count) {
    qsort(samples, count, sizeof *samples, by_size);
    uint64_t half = count ? samples[count / 2] : 0, most = count ? samples[count - 1 - count / 100] : 0;
    printf("\"%s_p50\":%llu,\"%s_p99\":%llu,", name, (unsigned long long)half, name, (unsigned long long)most);
}

int main(int argc, char **argv) {
    if (argc < 5 || argc > 7) return 2;
    port = atoi(argv[1]);
    client_count = atol(argv[2]);
    turns = argc > 5 ? atol(argv[5]) : 0;
    uint64_t ramp = argc > 6 ? (uint64_t)(atof(argv[6]) * 1e9) : 0;
    uint64_t began = now_ns();
    until = began + (uint64_t)(atof(argv[3]) * 1e9);
    FILE *file = fopen(argv[4], "rb");
    if (!file) die(argv[4]);
    request = calloc(1, ROOM + 1);
    request_size = fread(request, 1, ROOM, file);
    find_fields();
    first_number = (unsigned long)(began / 1000);
    times = malloc(MOST_SAMPLES * sizeof *times);
    ages = malloc(MOST_SAMPLES * sizeof *ages);
    poller = epoll_create1(0);
    struct client *clients = calloc((size_t)client_count, sizeof *clients);
    long started = 0;
    struct epoll_event ready[256];
    while ((started < client_count || whole + errors < sent) && now_ns() < until + GRACE_NS) {
        while (started < client_count && now_ns() >= began + ramp / (uint64_t)client_count * (uint64_t)started) {
            struct client *c = &clients[started];
            c->number = started++;
            c->fd = -1;
            ask(c);
        }
        int n = epoll_wait(poller, ready, 256, started < client_count ? 1 : 100);
        for (int i = 0; i < n; i++) arrived(ready[i].data.ptr);
    }
    double took = (double)(now_ns() - began) / 1e9;
    if (whole + errors < sent) wrong("answers are missing");
    printf("{\"whole\":%ld,\"errors\":%ld,\"chunks\":%ld,\"seconds\":%.6f,", whole, errors, stamps, took);
    told("time", times, time_count);
    told("age", ages, age_count);
    printf("\"error\":\"");
    for (const char *at = first_error; *at; at++) putchar(*at == '"' || *at == '\\' || *at < ' ' ? ' ' : *at);
    printf("\"}\n");
    return 0;
}
