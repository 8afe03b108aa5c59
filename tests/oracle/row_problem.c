#include "row_problem.h"

#include <math.h>
#include <stddef.h>

const char *const operation_names[OPERATIONS] = {
    "softmax", "log_softmax", "logsumexp", "softmax_backward", "log_softmax_backward", "cross_entropy",
};

row_problem row_problem_of(operation operation, int64_t columns, const double *x)
{
    row_problem problem = {.operation = operation, .columns = columns, .x = x};
    problem.scale = 1;
    problem.upstream = 1;
    problem.terms_divisor = 1;
    problem.rows_divisor = 1;
    return problem;
}

int64_t row_problem_values(const row_problem *problem)
{
    switch (problem->operation) {
    case LOGSUMEXP:
        return 1;
    case CROSS_ENTROPY:
        return 1 + problem->columns * (problem->probabilities ? 2 : 1);
    default:
        return problem->columns;
    }
}

bool row_problem_sees(const row_problem *problem, int64_t column)
{
    if (problem->seen && !problem->seen[column])
        return false;
    return !(problem->x[column] == -INFINITY) && !(problem->bias && problem->bias[column] == -INFINITY);
}
