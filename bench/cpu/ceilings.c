/* What memory can do at best: the same bytes moved with hardly any arithmetic. Compiled for this machine (-march=native). */
#include "work.h"
#include <omp.h>
#include <stddef.h>
#include <string.h>
#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

BENCH_API bench_contestant bench_memcpy, bench_plain_copy, bench_nt_copy, bench_three_streams, bench_read;

#if defined(__AVX512F__)
typedef __m512i line_part;
#define LOAD(p) _mm512_loadu_si512(p)
#define STORE(p, v) _mm512_storeu_si512(p, v)
#define STREAM(p, v) _mm512_stream_si512((void *)(p), v)
#define XOR(a, b) _mm512_xor_si512(a, b)
#define FENCE() _mm_sfence()
#elif defined(__AVX2__)
typedef __m256i line_part;
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define STREAM(p, v) _mm256_stream_si256((__m256i *)(p), v)
#define XOR(a, b) _mm256_xor_si256(a, b)
#define FENCE() _mm_sfence()
#else /* no non-temporal stores: the copy is a plain one */
typedef uint64_t line_part;
#define LOAD(p) (*(const uint64_t *)(p))
#define STORE(p, v) (*(uint64_t *)(p) = (v))
#define STREAM(p, v) STORE(p, v)
#define XOR(a, b) ((a) ^ (b))
#define FENCE() ((void)0)
#endif

/* Measured on Zen 4: copies gain from 16 lines ahead and the hint of no reuse, reads lose by any prefetch. */
enum { PAGE = 4096, LINE = 64, AHEAD = 16 * LINE, STEP = sizeof(line_part) };

typedef void piece_function(const char *x, const char *dy, char *y, int64_t bytes);

static void memcpy_piece(const char *x, const char *dy, char *y, int64_t bytes)
{
    (void)dy;
    memcpy(y, x, (size_t)bytes);
}

static void plain_piece(const char *x, const char *dy, char *y, int64_t bytes)
{
    int64_t i = 0;
    (void)dy;
    for (; i + 4 * STEP <= bytes; i += 4 * STEP) {
        const line_part a = LOAD(x + i), b = LOAD(x + i + STEP), c = LOAD(x + i + 2 * STEP), d = LOAD(x + i + 3 * STEP);
        STORE(y + i, a);
        STORE(y + i + STEP, b);
        STORE(y + i + 2 * STEP, c);
        STORE(y + i + 3 * STEP, d);
    }
    memcpy(y + i, x + i, (size_t)(bytes - i));
}

/* Up to the first whole line of y by memcpy: a non-temporal store wants its own alignment. */
static int64_t to_line(const char *y, int64_t bytes)
{
    const int64_t lead = (int64_t)(-(uintptr_t)y % LINE);
    return lead < bytes ? lead : bytes;
}

static void nt_piece(const char *x, const char *dy, char *y, int64_t bytes)
{
    int64_t i = to_line(y, bytes);
    (void)dy;
    memcpy(y, x, (size_t)i);
    for (; i + 4 * STEP <= bytes; i += 4 * STEP) {
        for (int j = 0; j < 4 * STEP; j += LINE)
            __builtin_prefetch(x + i + AHEAD + j, 0, 0);
        for (int j = 0; j < 4 * STEP; j += STEP)
            STREAM(y + i + j, LOAD(x + i + j));
    }
    memcpy(y + i, x + i, (size_t)(bytes - i));
    FENCE();
}

static void three_piece(const char *x, const char *dy, char *y, int64_t bytes)
{
    int64_t i = to_line(y, bytes);
    for (int64_t k = 0; k < i; k++)
        y[k] = x[k] ^ dy[k];
    for (; i + 4 * STEP <= bytes; i += 4 * STEP) {
        for (int j = 0; j < 4 * STEP; j += LINE) {
            __builtin_prefetch(x + i + AHEAD + j, 0, 0);
            __builtin_prefetch(dy + i + AHEAD + j, 0, 0);
        }
        for (int j = 0; j < 4 * STEP; j += STEP)
            STREAM(y + i + j, XOR(LOAD(x + i + j), LOAD(dy + i + j)));
    }
    for (; i < bytes; i++)
        y[i] = x[i] ^ dy[i];
    FENCE();
}

static void read_piece(const char *x, const char *dy, char *y, int64_t bytes)
{
    (void)dy;
    (void)y;
    for (int64_t i = 0; i + 4 * STEP <= bytes; i += 4 * STEP) {
        for (int j = 0; j < 4 * STEP; j += STEP) {
            const line_part v = LOAD(x + i + j);
            __asm__ volatile("" ::"m"(v), "x"(v)); /* loaded, though nothing uses it */
        }
    }
}

/* Every thread takes one piece, cut at pages. */
static int pieces(const bench_work *work, piece_function *function)
{
    const int64_t bytes = work->outer * work->columns * work->inner * bench_type_bytes(work->type);
    if (work->threads <= 1) {
        function(work->x, work->dy, work->y, bytes);
        return 0;
    }
#pragma omp parallel num_threads(work->threads)
    {
        const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads(), count = (bytes + PAGE - 1) / PAGE;
        const int64_t begin = count * thread / threads * PAGE, limit = count * (thread + 1) / threads * PAGE;
        const int64_t end = limit < bytes ? limit : bytes;
        if (begin < end)
            function((const char *)work->x + begin, work->dy ? (const char *)work->dy + begin : NULL,
                     (char *)work->y + begin, end - begin);
    }
    return 0;
}

int bench_memcpy(const bench_work *work)
{
    return pieces(work, memcpy_piece);
}

int bench_plain_copy(const bench_work *work)
{
    return pieces(work, plain_piece);
}

int bench_nt_copy(const bench_work *work)
{
    return pieces(work, nt_piece);
}

/* y = x xor dy: two streams in, one out. */
int bench_three_streams(const bench_work *work)
{
    return work->dy ? pieces(work, three_piece) : 1;
}

int bench_read(const bench_work *work)
{
    return pieces(work, read_piece);
}
