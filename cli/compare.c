#include "compare.h"

#include "device.h"
#include "fail.h"
#include "implementation.h"
#include "verdict.h"
#include "progress.h"

#include <limits.h>
#include <softmax_reference.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long all rounds of one implementation may take, and one measurement must, in seconds. */
#define ROUNDS_SECONDS 0.25
#define MEASUREMENT_SECONDS 5e-4
#define DEVICE_ROUNDS 9

typedef struct comparison {
    problem problem;
    int count;
    implementation implementations[IMPLEMENTATIONS_MOST];
    implementation copy; /* of as many bytes as the input and the result have together */
    char *copy_from, *copy_to;
    size_t copy_bytes;
    float *scores, *answers; /* of the references */
    char absent[120];        /* why NumPy has no row, or "" */
    double device_copy_time; /* of as many bytes, on the device */
} comparison;

static implementation *add(comparison *c, const char *prefix, const char *name)
{
    if (c->count == IMPLEMENTATIONS_MOST)
        fail_data("compare: more than %d implementations", IMPLEMENTATIONS_MOST);
    implementation *i = &c->implementations[c->count++];
    snprintf(i->name, sizeof i->name, "%s%s", prefix, name);
    npy_kind kind;
    int64_t shape[SOFTMAX_MAX_DIMENSIONS];
    int ndim = problem_output(&c->problem, &kind, shape);
    npy_create(&i->result, NULL, kind, false, ndim, shape);
    return i;
}

/* "NAME=FILE.npy[@SECONDS]": what another program computed, to be judged beside the others. */
static void add_result(comparison *c, const char *words)
{
    const char *equal = strchr(words, '='), *at = strrchr(words, '@');
    char *end;
    if (!equal || equal == words || equal - words > 20 || !equal[1])
        fail_usage("--result %s: allowed is NAME=FILE.npy or NAME=FILE.npy@SECONDS, NAME of at most 20 bytes", words);
    double time = at > equal ? strtod(at + 1, &end) : 0;
    bool timed = at > equal && end > at + 1 && !*end && time > 0; /* a file may have an @ in its name */
    char *file = allocate(strlen(words) + 1);
    snprintf(file, strlen(words) + 1, "%.*s", timed ? (int)(at - equal - 1) : INT_MAX, equal + 1);
    npy_array given;
    npy_open(&given, file, true);
    implementation *i = add(c, "", "");
    snprintf(i->name, sizeof i->name, "%.*s", (int)(equal - words), words);
    const npy_header *have = &given.header, *want = &i->result.header;
    bool fits = have->kind == want->kind && have->ndim == want->ndim && (!have->fortran_order || have->ndim < 2);
    for (int d = 0; fits && d < want->ndim; d++)
        fits = have->shape[d] == want->shape[d];
    if (!fits)
        fail_data("%s: is not of the type, shape and C order of this output", file);
    memcpy(i->result.tensor.data, given.tensor.data, (size_t)(want->elements * npy_kind_bytes(want->kind)));
    if (timed)
        i->times[i->rounds++] = time;
}

static void add_all(comparison *c)
{
    const arguments *a = c->problem.arguments;
    if (a->op == OP_SOFTMAX && c->problem.input.header.kind != NPY_FLOAT64) {
        c->scores = prepared_rows(&c->problem);
        c->answers = allocate((unsigned long long)c->problem.input.header.elements * sizeof *c->answers);
        add(c, "", "naive")->reference = softmax_reference_naive;
        add(c, "", "three-pass")->reference = softmax_reference_three_pass;
        add(c, "", "online")->reference = softmax_reference_online;
    }
    implementation *numpy = add(c, "", "NumPy");
    if (!numpy_compute(&c->problem, numpy, c->absent))
        c->count--;
    else
        c->absent[0] = '\0';
    for (int i = 0; i < a->result_count; i++)
        add_result(c, a->results[i]);
    for (int i = 0; i < softmax_isa_count(); i++) {
        if (softmax_isa_available(i) && (!a->options.isa || strcmp(a->options.isa, softmax_isa_name(i)) == 0))
            add(c, "libsoftmax ", softmax_isa_name(i))->isa = softmax_isa_name(i);
    }
}

/* Every kernel that can run the problem, and what the library chooses: result, and times on data that stay on the device. */
static void compare_on_device(comparison *c)
{
    char message[300];
    operands x = c->problem.operands;
    for (int k = -1; k < 0 || softmax_cuda_kernel_name(k); k++) {
        implementation *i = add(c, k < 0 ? "cuda" : "cuda ", k < 0 ? "" : softmax_cuda_kernel_name(k));
        i->cuda_kernel = k < 0 ? "" : softmax_cuda_kernel_name(k);
        const char *kernel = k < 0 ? NULL : i->cuda_kernel;
        const softmax_options *options = &c->problem.arguments->options;
        x.output = &i->result.tensor;
        device_problem *device = device_open(&c->problem, &x);
        softmax_status status = device_call(device, options, kernel, message, sizeof message);
        if (status == SOFTMAX_OK)
            status = device_fetch(device, message, sizeof message);
        if (status != SOFTMAX_OK && k < 0)
            problem_fail(&c->problem, status, message);
        if (status != SOFTMAX_OK) { /* not a kernel for this problem */
            c->count--;
        } else {
            double once = device_seconds(device, options, kernel, 1);
            int calls = once < MEASUREMENT_SECONDS ? (int)(MEASUREMENT_SECONDS / (once + 1e-7)) + 1 : 1;
            while (i->rounds < DEVICE_ROUNDS)
                i->times[i->rounds++] = device_seconds(device, options, kernel, calls);
        }
        device_close(device);
    }
    c->device_copy_time = device_copy_seconds(c->copy_bytes, 1);
    c->device_copy_time = device_copy_seconds(c->copy_bytes, c->device_copy_time < 1e-4 ? 20 : 5);
}

static void call(comparison *c, implementation *i)
{
    const npy_header *input = &c->problem.input.header;
    int64_t columns = input->shape[c->problem.axis];
    if (i->reference) {
        i->reference(c->scores, c->answers, input->elements ? input->elements / columns : 0, columns);
    } else if (i->isa) {
        operands x = c->problem.operands;
        x.output = &i->result.tensor;
        softmax_options options = c->problem.arguments->options;
        options.isa = i->isa;
        char message[300] = "";
        softmax_status status = problem_call(&c->problem, &x, &options, message, sizeof message);
        if (status != SOFTMAX_OK)
            problem_fail(&c->problem, status, message);
    } else {
        memcpy(c->copy_to, c->copy_from, c->copy_bytes);
        __asm__ volatile("" : : "r"(c->copy_to) : "memory"); /* the copy must happen */
    }
}

/* One more time of one call, by as many calls as make a measurable stretch. */
static void measure(comparison *c, implementation *i)
{
    double start = seconds(), now = start;
    int calls = 0;
    do {
        call(c, i);
        calls++;
        now = seconds();
    } while (now - start < MEASUREMENT_SECONDS);
    i->times[i->rounds++] = (now - start) / calls;
}

/* Rounds go over all implementations and the copy in turn, so that a slow moment of the machine meets them alike. */
static void measure_all(comparison *c)
{
    double spent[IMPLEMENTATIONS_MOST + 1] = {0};
    progress progress;
    progress_begin(&progress, (int64_t)ROUNDS_MOST * (c->count + 1));
    for (int round = 0; round < ROUNDS_MOST; round++) {
        for (int k = 0; k <= c->count; k++) {
            implementation *i = k == c->count ? &c->copy : &c->implementations[k];
            progress_advance(&progress, 1);
            bool in_process = i->reference || i->isa || i == &c->copy;
            if (!in_process || (round >= 3 && spent[k] > ROUNDS_SECONDS))
                continue;
            double start = seconds();
            measure(c, i);
            spent[k] += seconds() - start;
            if (round == 0 && i->reference)
                store_rows(&c->problem, c->answers, &i->result);
            i->rounds -= round == 0; /* the first meets cold caches and fresh pages */
        }
    }
    progress_end(&progress);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(implementation *i)
{
    if (i->rounds == 0)
        return 0;
    qsort(i->times, (size_t)i->rounds, sizeof *i->times, by_size);
    return i->rounds % 2 ? i->times[i->rounds / 2] : 0.5 * (i->times[i->rounds / 2 - 1] + i->times[i->rounds / 2]);
}

/* FNV-1a, 64 bits, over the result's elements in C order. */
static unsigned long long hash(const npy_array *array)
{
    const unsigned char *bytes = array->tensor.data;
    unsigned long long h = 0xcbf29ce484222325ULL;
    for (int64_t i = 0; i < array->header.elements * npy_kind_bytes(array->header.kind); i++)
        h = (h ^ bytes[i]) * 0x100000001b3ULL;
    return h;
}

static void time_text(char text[24], double time)
{
    const char *unit = time < 1e-3 ? "us" : time < 1 ? "ms" : "s";
    snprintf(text, 24, "%.4g %s", time * (time < 1e-3 ? 1e6 : time < 1 ? 1e3 : 1), unit);
}

/* Rungs of the ladder so far: times of CUDA kernels that were forced. */
typedef struct ladder {
    double first, last;
} ladder;

/* How many times as fast as the rung before, and as the first. */
static void print_step(ladder *rungs, double seconds)
{
    if (rungs->first > 0)
        printf(" %8.2f %8.2f", rungs->last / seconds, rungs->first / seconds);
    else
        rungs->first = seconds;
    rungs->last = seconds;
}

static void print_row(comparison *c, const exact_sample *j, implementation *i, double copy_time, ladder *rungs)
{
    verdict v = verdict_of(j, &i->result.tensor);
    char special[32] = "ok", max[24] = "-", mean[24] = "-", time[24] = "-", speed[24] = "-", share[24] = "-";
    if (v.wrong_rows)
        snprintf(special, sizeof special, "%lld wrong", (long long)v.wrong_rows);
    if (v.compared) {
        snprintf(max, sizeof max, v.max_ulp < 1e4 ? "%.3f" : "%.3g", v.max_ulp);
        snprintf(mean, sizeof mean, v.mean_ulp < 1e4 ? "%.3f" : "%.3g", v.mean_ulp);
    }
    double seconds = median(i);
    if (seconds > 0) {
        time_text(time, seconds);
        snprintf(speed, sizeof speed, "%.3f", 1e-9 * (double)c->problem.input.header.elements / seconds);
        snprintf(share, sizeof share, "%.1f %%", 100 * copy_time / seconds);
    }
    printf("%-20s %12s %10s %10s  %016llx %10s %8s %8s", i->name, special, max, mean, hash(&i->result), time, speed,
           share);
    if (i->cuda_kernel && *i->cuda_kernel && seconds > 0)
        print_step(rungs, seconds);
    putchar('\n');
}

static void print_heading(const comparison *c, const exact_sample *j)
{
    static const char *const types[NPY_KIND_COUNT] = {
        [NPY_FLOAT16] = "float16", [NPY_FLOAT32] = "float32", [NPY_FLOAT64] = "float64", [NPY_UINT16] = "bfloat16"};
    const problem *p = &c->problem;
    const npy_header *input = &p->input.header;
    printf("%s%s of %s, %s (", operation_name(p->arguments->op), p->arguments->op == OP_CROSS_ENTROPY ? " per row" : "",
           p->input.name, types[input->kind]);
    for (int d = 0; d < input->ndim; d++)
        printf("%lld%s", (long long)input->shape[d], d + 1 < input->ndim ? ", " : input->ndim == 1 ? "," : "");
    int threads = p->arguments->options.threads;
    printf("), axis %d; libsoftmax on ", p->axis);
    printf(threads ? "%d thread%s\n" : "as many threads as are worth it\n", threads, threads == 1 ? "" : "s");
    bool fine = j->kind != NPY_FLOAT64 || REAL_BITS >= 100;
    printf("judge: arithmetic of %d bits%s, %lld of %lld rows%s\n", REAL_BITS,
           fine ? "" : ", NOT fine enough for float64", (long long)j->rows, (long long)row_count(p),
           p->arguments->options.softcap > 0 ? "; softcap's own rounding counts as error" : "");
    printf("\n%-20s %12s %10s %10s  %-16s %10s %8s %8s", "", "special rows", "max ULP", "mean ULP", "bits (FNV-1a)",
           "time", "Gelem/s", "of copy");
    puts(p->arguments->cuda_device >= 0 ? " x before  x first" : "");
}

void compare(const arguments *given)
{
    static comparison c; /* not to be moved, and large */
    static arguments a;
    a = *given;
    if (a.op == OP_CROSS_ENTROPY)
        a.options.reduction = SOFTMAX_NONE; /* errors are counted per row */
    problem_open(&c.problem, &a);
    npy_kind kind;
    int64_t shape[SOFTMAX_MAX_DIMENSIONS];
    problem_output(&c.problem, &kind, shape);
    add_all(&c);
    const npy_array *result = &c.implementations[c.count - 1].result;
    c.copy_bytes = (size_t)(c.problem.input.header.elements * npy_kind_bytes(c.problem.input.header.kind) +
                            result->header.elements * npy_kind_bytes(kind)) /
                   2;
    c.copy_from = allocate(c.copy_bytes);
    c.copy_to = allocate(c.copy_bytes);
    memset(c.copy_from, 1, c.copy_bytes);
    measure_all(&c);
    if (a.cuda_device >= 0)
        compare_on_device(&c);

    exact_sample j;
    exact_sample_open(&j, &c.problem, kind, a.op == OP_LOGSUMEXP || a.op == OP_CROSS_ENTROPY);
    print_heading(&c, &j);
    double copy_time = median(&c.copy);
    ladder rungs = {0, 0};
    for (int i = 0; i < c.count; i++) {
        bool there = c.implementations[i].cuda_kernel != NULL;
        print_row(&c, &j, &c.implementations[i], there ? c.device_copy_time : copy_time, &rungs);
    }
    char time[24];
    time_text(time, copy_time);
    printf("%-20s %12s %10s %10s  %-16s %10s\n", "copy (1 thread)", "", "", "", "", time);
    if (a.cuda_device >= 0) {
        time_text(time, c.device_copy_time);
        printf("%-20s %12s %10s %10s  %-16s %10s\n", "copy on the device", "", "", "", "", time);
    }
    if (*c.absent)
        printf("%s\n", c.absent);
    exact_sample_close(&j);
}
