/* A template, included once per type: a contestant's NAME(rows) over work->threads threads; the loss is their sum. */
static int NAME(rows_over_threads)(const bench_work *work)
{
    const int64_t threads = work->threads;
    REAL loss = 0;
    if (threads <= 1) {
        loss = NAME(rows)(work, 0, work->outer);
    } else {
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : loss)
        for (int64_t t = 0; t < threads; t++)
            loss += NAME(rows)(work, work->outer * t / threads, work->outer * (t + 1) / threads);
    }
    if (work->operation == BENCH_CROSS_ENTROPY)
        *(REAL *)work->loss = loss;
    return 0;
}
