/* A checked job over threads. Rows are split over them; when there are fewer rows than threads, each long row is split by blocks of
 * columns instead, and the parts are merged exactly: the bits do not depend on the split. */
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../fenv_guard.h"
#include "../kernels.h"
#include "../numerics/readout.h"
#include "row_operands.h"

#define ELEMENTS_PER_THREAD 16384 /* below it, waking another thread costs more than it brings */
#define MAX_THREADS 256

/* OpenMP's threads do not exist in a forked child of a process that used them: the child works alone. */
static atomic_int threads_were_used, child_works_alone;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void after_fork_in_child(void) {
    if (atomic_load(&threads_were_used)) atomic_store(&child_works_alone, 1);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

static int choose_threads(const softmax_job *job, int64_t parts) {
    int64_t threads = job->threads > 0 ? job->threads : omp_get_max_threads();
    double elements = (double)job->rows * (double)job->columns;
    if (job->threads == 0 && threads > elements / ELEMENTS_PER_THREAD) threads = (int64_t)(elements / ELEMENTS_PER_THREAD);
    if (threads > parts) threads = parts;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if (threads < 1 || omp_in_parallel()) threads = 1;
    if (threads == 1) return 1;
    pthread_once(&fork_once, watch_forks);
    if (atomic_load(&child_works_alone)) return 1;
    atomic_store(&threads_were_used, 1);
    return (int)threads;
}

static int64_t part_begin(int64_t count, int parts, int part) {
    return count / parts * part + (count % parts < part ? count % parts : part);
}

static void merge_totals(loss_totals *into, const loss_totals *from) {
    accumulator_merge(&into->terms, &from->terms);
    accumulator_merge(&into->z_loss, &from->z_loss);
    into->nans += from->nans;
    into->infinities += from->infinities;
}

static loss_totals no_totals(void) {
    loss_totals totals = {accumulator_empty(), accumulator_empty(), 0, 0};
    return totals;
}

static void run_by_rows(const softmax_job *job, int threads, const loss_divisors *divisors, loss_totals *totals) {
    if (threads == 1) {
        job->kernels->rows(job, 0, job->rows, divisors, totals);
        return;
    }
    loss_totals part_totals[MAX_THREADS];
    int used = 0;
#pragma omp parallel num_threads(threads)
    {
        fenv_guard guard = guard_begin();
        int parts = omp_get_num_threads(), part = omp_get_thread_num();
        if (part == 0) used = parts;
        part_totals[part] = no_totals();
        job->kernels->rows(job, part_begin(job->rows, parts, part), part_begin(job->rows, parts, part + 1), divisors,
                           &part_totals[part]);
        guard_end(guard);
    }
    for (int part = 0; part < used; part++) merge_totals(totals, &part_totals[part]);
}

static void merge_partial(const softmax_job *job, row_partial *into, const row_partial *from) {
    row_state_merge(&into->state, &from->state, job->kind);
    accumulator_merge(&into->sum, &from->sum);
    into->flags |= from->flags;
    if (from->target_score != -(double)INFINITY) into->target_score = from->target_score;
}

static row_partial no_partial(void) {
    row_partial partial = {row_state_empty(), accumulator_empty(), 0, -(double)INFINITY, NULL, NULL};
    return partial;
}

static void run_by_columns(const softmax_job *job, int threads, const loss_divisors *divisors, loss_totals *totals) {
    int64_t blocks = (job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS;
    for (int64_t row = 0; row < job->rows; row++) {
        row_partial whole = no_partial(), parts_of_row[MAX_THREADS];
        whole.divisors = divisors;
        whole.totals = totals;
#pragma omp parallel num_threads(threads)
        {
            fenv_guard guard = guard_begin();
            int parts = omp_get_num_threads(), part = omp_get_thread_num();
            int64_t first = part_begin(blocks, parts, part) * SOFTMAX_BLOCK_COLUMNS;
            int64_t last = part_begin(blocks, parts, part + 1) * SOFTMAX_BLOCK_COLUMNS;
            if (last > job->columns) last = job->columns;
            parts_of_row[part] = no_partial();
            job->kernels->reduce(job, row, first, last, &parts_of_row[part]);
#pragma omp barrier
#pragma omp single
            for (int i = 0; i < parts; i++) merge_partial(job, &whole, &parts_of_row[i]);
            if (job->op != OPERATION_LOGSUMEXP)
                job->kernels->finish(job, row, first, last, &whole);
            else if (part == 0)
                job->kernels->finish(job, row, 0, 0, &whole);
            guard_end(guard);
        }
    }
}

static int can_split_columns(const softmax_job *job) {
    operation op = job->op;
    if (op == OPERATION_CROSS_ENTROPY) /* one column counts in the loss */
        return (job->targets.type == ELEMENT_INT32 || job->targets.type == ELEMENT_INT64) && job->label_smoothing == 0.0;
    return op == OPERATION_SOFTMAX || op == OPERATION_LOG_SOFTMAX || op == OPERATION_LOGSUMEXP ||
           op == OPERATION_SOFTMAX_BACKWARD || op == OPERATION_LOG_SOFTMAX_BACKWARD;
}

/* The smallest row whose target is neither a class nor ignore_index; and what the mean divides by. */
static softmax_status read_targets(const softmax_job *job, loss_divisors *divisors) {
    accumulator weights = accumulator_empty();
    double not_finite = 0.0;
    int64_t kept = 0;
    if (job->targets.type != ELEMENT_INT32 && job->targets.type != ELEMENT_INT64) {
        divisors->terms = divisors->z_loss = (double)job->rows;
        return SOFTMAX_OK;
    }
    for (int64_t row = 0; row < job->rows; row++) {
        place p = place_of_row(job, row);
        int64_t target = load_integer(row_address(job, &job->targets, &p), job->targets.type);
        if (target == job->ignore_index) continue;
        if (target < 0 || target >= job->columns) {
            *job->bad_row = row;
            *job->bad_target = target;
            return SOFTMAX_ERROR_TARGET;
        }
        kept++;
        if (job->weights.data) {
            double weight = load_weight(job, &p, target);
            if (weight - weight == 0.0)
                accumulator_add_double(&weights, weight);
            else
                not_finite += weight; /* NaN, or an infinity */
        }
    }
    divisors->z_loss = (double)kept;
    divisors->terms = job->weights.data ? accumulator_read(&weights, 0).hi + not_finite : (double)kept;
    return SOFTMAX_OK;
}

/* sum / divisor, where the sum alone may be beyond the range of doubles. */
static double read_divided(const accumulator *sum, double divisor) {
    int64_t down = sum->top > 28 ? 64 : 0;
    return scale_by_power(accumulator_read(sum, down).hi / divisor, down);
}

static void store_reduced_loss(const softmax_job *job, const loss_divisors *divisors, const loss_totals *totals, const loss_divisors *counts) {
    double loss;
    if (!job->loss.data) return;
    loss = read_divided(&totals->terms, divisors->terms);
    if (counts->z_loss == 0.0) /* no row was kept */
        loss = job->reduction == SOFTMAX_SUM || job->empty_zero ? 0.0 : (double)NAN;
    else if (job->z_loss != 0.0)
        loss += read_divided(&totals->z_loss, divisors->z_loss);
    if (totals->infinities) loss = (double)INFINITY;
    if (totals->nans) loss = (double)NAN;
    store_loss(job, loss);
}

softmax_status softmax_run_cpu(const softmax_job *job) {
    loss_divisors divisors = {1.0, 1.0}, counts = {1.0, 1.0};
    loss_totals totals = no_totals();
    int64_t blocks = (job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS;
    int by_rows = choose_threads(job, job->rows), by_columns;
    if (job->op == OPERATION_CROSS_ENTROPY) {
        softmax_status status = read_targets(job, &counts);
        if (status != SOFTMAX_OK) return status;
        if (job->reduction == SOFTMAX_MEAN) divisors = counts;
    }
    by_columns = can_split_columns(job) && job->rows < 64 ? choose_threads(job, blocks) : 1;
    if (by_columns > by_rows || (by_columns > 1 && job->rows % by_rows != 0 && job->rows < 2 * by_rows))
        run_by_columns(job, by_columns, &divisors, &totals);
    else
        run_by_rows(job, by_rows, &divisors, &totals);
    if (job->op == OPERATION_CROSS_ENTROPY && job->reduction != SOFTMAX_NONE) store_reduced_loss(job, &divisors, &totals, &counts);
    return SOFTMAX_OK;
}
