/* One fault of each kind, by name: proof that the sanitizer sees it. `none` has the same loops, synchronised. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shared_sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void openmp_loops(int racy)
{
    enum { N = 4096 };
    static int cells[N], moved[N];
    int total = 0;

    /* The second region reads what the first wrote under another split: ordered by the barrier between them only. */
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < N; i++) {
        cells[i] = i;
    }
#pragma omp parallel for num_threads(2) reduction(+ : total)
    for (int i = 0; i < N; i++) {
        moved[i] = cells[N - 1 - i];
        total += moved[i];
    }
    if (total != N * (N - 1) / 2) {
        puts("wrong sum");
    }
    if (racy) {
#pragma omp parallel for num_threads(2)
        for (int i = 0; i < N; i++) {
            shared_sum += i;
        }
    }
}

/* A leak whose stack goes through the OpenMP runtime, in its own threads too. */
static void allocating_loop(int leaky)
{
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 4; i++) {
        char *volatile block = malloc(16);
        if (block != NULL) {
            block[0] = 1;
        }
        if (!leaky || i < 3) {
            free(block);
        }
        block = NULL;
    }
}

static void *add(void *racy)
{
    for (int i = 0; i < 1000; i++) {
        if (racy) {
            shared_sum++;
        } else {
            pthread_mutex_lock(&lock);
            shared_sum++;
            pthread_mutex_unlock(&lock);
        }
    }
    return NULL;
}

static void threads(int racy)
{
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&thread[i], NULL, add, racy ? &shared_sum : NULL) != 0) {
            abort();
        }
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
    }
}

static void memory(const char *fault)
{
    volatile int zero = 0;
    char *block = malloc(16);
    if (block == NULL) {
        abort();
    }
    memset(block, 1, 16);
    if (strcmp(fault, "heap_overflow") == 0) {
        block[16 + zero] = 1;
    }
    if (strcmp(fault, "leak") == 0) {
        block = NULL;
    }
    free(block);
    if (strcmp(fault, "use_after_free") == 0) {
        block[zero] = 1;
    }
    if (strcmp(fault, "signed_overflow") == 0) {
        zero = INT_MAX - zero;
        zero = zero + 1;
    }
}

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "none";
    openmp_loops(strcmp(fault, "race_openmp") == 0);
    threads(strcmp(fault, "race_threads") == 0);
    allocating_loop(strcmp(fault, "leak_in_loop") == 0);
    memory(fault);
    puts("done");
    return 0;
}
