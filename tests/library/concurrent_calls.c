/* Calls at the same time from several threads on disjoint outputs, and in a forked child of a process that has used
 * threads: the results of one call alone, and nothing hangs. */
#include "oracle/check.h"
#include "oracle/library_call.h"
#include "oracle/random_rows.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 64, COLUMNS = 1500, CALLERS = 6, CALLS = 20, LIMIT_SECONDS = 60 };

static float logits[ROWS * COLUMNS], expected[ROWS * COLUMNS], expected_gradient[ROWS * COLUMNS];
static int64_t targets[ROWS];
static float expected_loss;

/* 0, or the number of the first call that failed. */
static int softmax_differs(float *y, int threads)
{
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    options.threads = threads;
    memset(y, 0, sizeof expected);
    if (softmax_softmax_rows(SOFTMAX_FLOAT32, ROWS, COLUMNS, logits, y, &options) != SOFTMAX_OK ||
        memcmp(y, expected, sizeof expected) != 0)
        return 1;
    float loss = 0;
    if (softmax_cross_entropy_rows(SOFTMAX_FLOAT32, ROWS, COLUMNS, logits, targets, &loss, y, &options) != SOFTMAX_OK ||
        memcmp(y, expected_gradient, sizeof expected) != 0 || loss != expected_loss)
        return 2;
    return 0;
}

static void *caller(void *number)
{
    float *y = malloc(sizeof expected);
    intptr_t failed = 0;
    for (int call = 0; y && call < CALLS && !failed; call++)
        failed = softmax_differs(y, 1 + (int)((intptr_t)number + call) % 3);
    free(y);
    return (void *)(y ? failed : 3);
}

static void test_callers(void)
{
    pthread_t callers[CALLERS];
    for (intptr_t i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&callers[i], NULL, caller, (void *)i) == 0, "thread %ld does not start", (long)i);
    for (int i = 0; i < CALLERS; i++) {
        void *failed;
        pthread_join(callers[i], &failed);
        CHECK(failed == NULL, "caller %d of %d: call kind %ld gave other results", i, CALLERS, (long)(intptr_t)failed);
    }
}

/* The child calls with 2 threads; SIGALRM ends it if it hangs. */
static void test_fork(const char *when)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        float *y = malloc(sizeof expected);
        alarm(LIMIT_SECONDS);
        _exit(!y || softmax_differs(y, 2) || softmax_differs(y, 8) || softmax_differs(y, 1));
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %s: %s %d", when,
          WIFSIGNALED(status) ? "ended by signal" : "exit status",
          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void *forking_thread(void *unused)
{
    test_fork("of a second thread");
    return unused;
}

int main(void)
{
    random_source source = random_seed(7);
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    pthread_t thread;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        logits[i] = (float)random_normal(&source);
    for (int r = 0; r < ROWS; r++)
        targets[r] = random_below(&source, COLUMNS);
    options.threads = 1;
    CHECK(softmax_softmax_rows(SOFTMAX_FLOAT32, ROWS, COLUMNS, logits, expected, &options) == SOFTMAX_OK, "one thread");
    CHECK(softmax_cross_entropy_rows(SOFTMAX_FLOAT32, ROWS, COLUMNS, logits, targets, &expected_loss, expected_gradient,
                                     &options) == SOFTMAX_OK,
          "one thread");
    test_fork("before threads were used");
    test_callers();
    test_fork("after threads were used");
    test_callers();
    pthread_create(&thread, NULL, forking_thread, NULL);
    pthread_join(thread, NULL);
    printf("%d callers, %d calls each; 3 forked children\n", CALLERS, CALLS);
    return check_finish("concurrent_calls");
}
