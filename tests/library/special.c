/* Contract C: special rows of every operation, types, instruction set, width and axis, among ordinary rows that must
 * not notice. */
#include "oracle/check.h"
#include "oracle/library_call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SETS = 8, MAX_COLUMNS = 2049, MAX_ROWS = 16 };

static const int64_t widths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 127, 129, 511, 513, 1025, 1100, 2049};

/* What a value must be. ORDINARY: finite, and not 0 where the operation cannot give 0. */
typedef enum kind { ORDINARY, A_NAN, A_ZERO, PLUS_INFINITY, MINUS_INFINITY, MINUS_ONE } kind;

static const char *const kind_names[] = {"an ordinary value", "the positive quiet NaN", "+0", "+inf", "-inf", "-1"};

static const char *current_set;
static char words[160];

static bool is_kind(const float_format *format, const char *at, kind kind)
{
    double value = format_load(format, at, 0);
    char quiet[8] = {0};
    switch (kind) {
    case A_NAN:
        format_store(format, quiet, 0, NAN);
        return memcmp(at, quiet, (size_t)format->bytes) == 0;
    case A_ZERO:
        return value == 0 && !signbit(value);
    case PLUS_INFINITY:
        return value == INFINITY;
    case MINUS_INFINITY:
        return value == -INFINITY;
    case MINUS_ONE:
        return value == -1;
    default:
        return isfinite(value);
    }
}

/* A row that is wrong in many columns is one failure. */
static void check_kind(const float_format *format, const void *array, int64_t index, kind kind, const char *row,
                       int64_t column)
{
    static char failed[256];
    char name[256] = "";
    const char *at = (const char *)array + index * format->bytes;
    bool right = is_kind(format, at, kind);
    if (!right)
        snprintf(name, sizeof name, "%s %s", words, row);
    if (!right && strcmp(failed, name) == 0)
        return;
    if (!CHECK(right, "%s, row '%s', column %ld: %a is not %s", words, row, (long)column, format_load(format, at, 0),
               kind_names[kind]))
        strcpy(failed, name);
}

/* ---- Rows of scores -----------------------------------------------------------------------------------------------
 */

/* `special` at the columns `where` says, 0.5 elsewhere. */
typedef enum place { NOWHERE, FIRST, LAST, MIDDLE, EVERYWHERE, ODD } place;

static bool is_at(place where, int64_t column, int64_t columns)
{
    switch (where) {
    case FIRST:
        return column == 0;
    case LAST:
        return column == columns - 1;
    case MIDDLE:
        return column == columns / 2;
    case EVERYWHERE:
        return true;
    case ODD:
        return column % 2 == 1;
    default:
        return false;
    }
}

typedef struct score_row {
    const char *name;
    double special;
    place where;
    place masked; /* these columns are masked out, where the batch has a mask */
    kind row;     /* of the columns that take part; ORDINARY: as usual, and -inf gives no share */
    kind logsumexp;
} score_row;

static const score_row plain_rows[] = {
    {"ordinary", 0.5, NOWHERE, NOWHERE, ORDINARY, ORDINARY},
    {"NaN first", NAN, FIRST, NOWHERE, A_NAN, A_NAN},
    {"NaN last", NAN, LAST, NOWHERE, A_NAN, A_NAN},
    {"negative NaN", -NAN, MIDDLE, NOWHERE, A_NAN, A_NAN},
    {"negative NaN first", -NAN, FIRST, NOWHERE, A_NAN, A_NAN},
    {"negative NaN last", -NAN, LAST, NOWHERE, A_NAN, A_NAN},
    {"all NaN", NAN, EVERYWHERE, NOWHERE, A_NAN, A_NAN},
    {"ordinary again", 0.25, ODD, NOWHERE, ORDINARY, ORDINARY},
    {"+inf first", INFINITY, FIRST, NOWHERE, A_NAN, PLUS_INFINITY},
    {"+inf last", INFINITY, LAST, NOWHERE, A_NAN, PLUS_INFINITY},
    {"all +inf", INFINITY, EVERYWHERE, NOWHERE, A_NAN, PLUS_INFINITY},
    {"odd columns -inf", -INFINITY, ODD, NOWHERE, ORDINARY, ORDINARY},
    {"all -inf", -INFINITY, EVERYWHERE, NOWHERE, A_ZERO,
     MINUS_INFINITY}, /* empty: A_ZERO stands for the option's value */
    {"ordinary at the end", -3, ODD, NOWHERE, ORDINARY, ORDINARY},
};

static const score_row masked_rows[] = {
    {"nothing masked", 0.5, NOWHERE, NOWHERE, ORDINARY, ORDINARY},
    {"masked NaN", NAN, ODD, ODD, ORDINARY, ORDINARY},
    {"masked +inf", INFINITY, ODD, ODD, ORDINARY, ORDINARY},
    {"masked -inf", -INFINITY, ODD, ODD, ORDINARY, ORDINARY},
    {"all masked", 0.5, NOWHERE, EVERYWHERE, A_ZERO, MINUS_INFINITY},
    {"all masked NaN", NAN, EVERYWHERE, EVERYWHERE, A_ZERO, MINUS_INFINITY},
    {"all masked +inf", INFINITY, EVERYWHERE, EVERYWHERE, A_ZERO, MINUS_INFINITY},
    {"odd masked", 7, NOWHERE, ODD, ORDINARY, ORDINARY},
};

static double x_value(const score_row *row, int64_t column, int64_t columns)
{
    return is_at(row->where, column, columns) ? row->special : 0.5;
}

/* What the operation gives there. */
static kind expected_kind(operation operation, const score_row *row, int64_t column, int64_t columns, int empty)
{
    kind none = operation == SOFTMAX ? A_ZERO : MINUS_INFINITY;
    bool out = is_at(row->masked, column, columns) || (x_value(row, column, columns) == -INFINITY);
    if (operation == LOGSUMEXP)
        return row->logsumexp;
    if (row->row == A_ZERO)
        return empty == SOFTMAX_EMPTY_ZERO ? none : A_NAN;
    if (row->row == ORDINARY && out)
        return none;
    return row->row;
}

typedef struct buffers {
    char x[MAX_ROWS * MAX_COLUMNS * 8], dy[MAX_ROWS * MAX_COLUMNS * 8], y[MAX_ROWS * MAX_COLUMNS * 8];
    uint8_t mask[MAX_ROWS * MAX_COLUMNS];
} buffers;

static buffers memory;

typedef struct types {
    const float_format *input;
    const float_format *output;
} types;

static types types_of(int f)
{
    const float_format *input = &float_formats[f < 4 ? f : f - 2];
    return (types){input, f < 4 ? input : &float_formats[0]};
}

/* Where (row, column) lies: the axis is last, or first. */
static int64_t at(int64_t row, int64_t column, int64_t rows, int64_t columns, bool axis_first)
{
    return axis_first ? column * rows + row : row * columns + column;
}

/* How a batch's masked columns are masked out. */
typedef enum masking { NO_MASK, BOOLEAN_MASK, ADDITIVE_MASK } masking;

static void run_scores(operation operation, types types, const score_row *rows, int64_t row_count, int64_t columns,
                       masking masking, bool axis_first, int empty)
{
    tensor x, y, mask;
    int64_t a = axis_first ? columns : row_count, b = axis_first ? row_count : columns;
    for (int64_t r = 0; r < row_count; r++) {
        for (int64_t j = 0; j < columns; j++) {
            int64_t where = at(r, j, row_count, columns, axis_first);
            format_store(types.input, memory.x, where, x_value(&rows[r], j, columns));
            memory.mask[where] = !is_at(rows[r].masked, j, columns);
            format_store(types.input, memory.dy, where, memory.mask[where] ? 0 : -INFINITY);
        }
    }
    memset(memory.y, 0xc5, sizeof memory.y);
    tensor_matrix(&x, memory.x, types.input->dlpack, a, b);
    if (operation == LOGSUMEXP)
        tensor_vector(&y, memory.y, types.output->dlpack, row_count);
    else
        tensor_matrix(&y, memory.y, types.output->dlpack, a, b);
    library_call call = library_call_of(operation, &x.dl, NULL, &y.dl, NULL, axis_first ? 0 : 1);
    call.options.isa = current_set;
    call.options.empty_rows = empty;
    if (masking == BOOLEAN_MASK)
        call.options.mask = tensor_matrix(&mask, memory.mask, tensor_bool, a, b);
    if (masking == ADDITIVE_MASK)
        call.options.bias = tensor_matrix(&mask, memory.dy, types.input->dlpack, a, b);
    if (!library_run_ok(&call, words))
        return;
    for (int64_t r = 0; r < row_count; r++) {
        if (operation == LOGSUMEXP)
            check_kind(types.output, memory.y, r, expected_kind(operation, &rows[r], 0, columns, empty), rows[r].name,
                       0);
        for (int64_t j = 0; operation != LOGSUMEXP && j < columns; j++)
            check_kind(types.output, memory.y, at(r, j, row_count, columns, axis_first),
                       expected_kind(operation, &rows[r], j, columns, empty), rows[r].name, j);
    }
}

/* A row of one column that is -inf or masked out is empty, whatever its name says. */
static bool fits(const score_row *row, int64_t columns)
{
    return columns > 1 || row->where == EVERYWHERE || row->where == NOWHERE || row->where == ODD ||
           isnan(row->special) || row->special == INFINITY;
}

static void test_scores(operation operation, types types, int64_t columns)
{
    static const char *const masking_names[] = {"", ", mask", ", additive mask"};
    for (int variant = 0; variant < 12; variant++) {
        masking masking = (enum masking)(variant / 4);
        bool axis_first = variant & 1;
        int empty = variant & 2 ? SOFTMAX_EMPTY_ZERO : SOFTMAX_EMPTY_NAN;
        const score_row *rows = masking ? masked_rows : plain_rows;
        int64_t count = (int64_t)(masking ? sizeof masked_rows : sizeof plain_rows) / (int64_t)sizeof *rows;
        for (int64_t r = 0; r < count; r++)
            if (!fits(&rows[r], columns))
                return;
        snprintf(words, sizeof words, "%s %s->%s n=%ld %s%s%s%s", operation_names[operation], types.input->name,
                 types.output->name, (long)columns, current_set, masking_names[masking],
                 axis_first ? ", axis first" : "", empty ? ", empty_rows zero" : "");
        run_scores(operation, types, rows, count, columns, masking, axis_first, empty);
    }
}

/* Rows emptied by the other ways of masking. */
static void test_empty_rows(types types, int64_t columns)
{
    tensor x, y, bias, lengths;
    int64_t valid[4] = {columns, 0, -5, 1};
    memset(memory.x, 0, sizeof memory.x);
    format_store(types.input, memory.dy, 0, -INFINITY);
    for (int64_t j = 1; j < columns; j++)
        format_store(types.input, memory.dy, j, -INFINITY);
    snprintf(words, sizeof words, "softmax %s->%s n=%ld %s, emptied", types.input->name, types.output->name,
             (long)columns, current_set);
    library_call call = library_call_of(SOFTMAX, tensor_matrix(&x, memory.x, types.input->dlpack, 4, columns), NULL,
                                        tensor_matrix(&y, memory.y, types.output->dlpack, 4, columns), NULL, 1);
    call.options.isa = current_set;
    call.options.valid_lengths = tensor_vector(&lengths, valid, tensor_int64, 4);
    library_run_ok(&call, words);
    check_kind(types.output, memory.y, 0, ORDINARY, "all valid", 0);
    check_kind(types.output, memory.y, columns, A_NAN, "length 0", 0);
    check_kind(types.output, memory.y, 3 * columns - 1, A_NAN, "negative length", columns - 1);
    CHECK(format_load(types.output, memory.y, 3 * columns) == 1, "%s: one valid column has all the share", words);
    call.options.valid_lengths = NULL;
    call.options.bias = tensor_vector(&bias, memory.dy, types.input->dlpack, columns);
    library_run_ok(&call, words);
    check_kind(types.output, memory.y, columns - 1, A_NAN, "bias all -inf", columns - 1);
    call.options.bias = NULL;
    call.options.causal = 1;
    call.options.causal_offset = -1;
    call.options.empty_rows = SOFTMAX_EMPTY_ZERO;
    library_run_ok(&call, words);
    check_kind(types.output, memory.y, columns - 1, A_ZERO, "causal offset -1: query 0 sees nothing", columns - 1);
    CHECK(format_load(types.output, memory.y, columns) == 1, "%s: query 1 sees column 0 alone", words);
}

/* ---- Backwards ----------------------------------------------------------------------------------------------------
 */

typedef struct gradient_row {
    const char *name;
    double y;  /* at `where`; elsewhere a share, or its logarithm */
    double dy; /* at `where`; elsewhere 1 */
    place where;
    kind row;      /* of all columns; ORDINARY: the columns without a share are +0 */
    kind row_zero; /* with empty_rows = zero */
} gradient_row;

static const gradient_row softmax_rows[] = {
    {"ordinary", 0.25, 1, NOWHERE, ORDINARY, ORDINARY},
    {"y NaN", NAN, 1, MIDDLE, A_NAN, A_NAN},
    {"dy NaN", 0.25, NAN, LAST, A_NAN, A_NAN},
    {"dy negative NaN", 0.25, -NAN, LAST, A_NAN, A_NAN},
    {"dy +inf", 0.25, INFINITY, FIRST, A_NAN, A_NAN},
    {"dy -inf", 0.25, -INFINITY, MIDDLE, A_NAN, A_NAN},
    {"odd y 0", 0, 3, ODD, ORDINARY, ORDINARY},
    {"all y 0", 0, 1, EVERYWHERE, A_ZERO, A_ZERO},
    {"all y NaN", NAN, 1, EVERYWHERE, A_NAN, A_NAN},
    {"ordinary again", 0.25, -2, ODD, ORDINARY, ORDINARY},
};

static const gradient_row log_rows[] = {
    {"ordinary", -1, 1, NOWHERE, ORDINARY, ORDINARY},
    {"y NaN", NAN, 1, MIDDLE, A_NAN, A_NAN},
    {"dy NaN", -1, NAN, LAST, A_NAN, A_NAN},
    {"dy negative NaN", -1, -NAN, LAST, A_NAN, A_NAN},
    {"dy +inf", -1, INFINITY, FIRST, A_NAN, A_NAN},
    {"dy -inf", -1, -INFINITY, MIDDLE, A_NAN, A_NAN},
    {"odd y -inf", -INFINITY, 3, ODD, ORDINARY, ORDINARY},
    {"all y -inf", -INFINITY, 1, EVERYWHERE, A_ZERO, A_ZERO},
    {"all y NaN", NAN, 1, EVERYWHERE, A_NAN, A_NAN},
    {"ordinary again", -1, -2, ODD, ORDINARY, ORDINARY},
};

static void test_backward(operation operation, types types, int64_t columns, int empty, bool axis_first)
{
    const gradient_row *rows = operation == SOFTMAX_BACKWARD ? softmax_rows : log_rows;
    int64_t count = sizeof softmax_rows / sizeof *softmax_rows;
    int64_t a = axis_first ? columns : count, b = axis_first ? count : columns;
    double none = operation == SOFTMAX_BACKWARD ? 0 : -INFINITY;
    tensor y, dy, dx;
    if (columns == 1)
        return; /* "all NaN" and "NaN somewhere" are one row there */
    snprintf(words, sizeof words, "%s %s->%s n=%ld %s%s%s", operation_names[operation], types.input->name,
             types.output->name, (long)columns, current_set, axis_first ? ", axis first" : "",
             empty ? ", empty_rows zero" : "");
    for (int64_t r = 0; r < count; r++) {
        for (int64_t j = 0; j < columns; j++) {
            bool special = is_at(rows[r].where, j, columns);
            int64_t where = at(r, j, count, columns, axis_first);
            format_store(types.input, memory.x, where, special ? rows[r].y : rows[0].y);
            format_store(types.input, memory.dy, where, special ? rows[r].dy : 1);
        }
    }
    memset(memory.y, 0xc5, sizeof memory.y);
    library_call call =
        library_call_of(operation, tensor_matrix(&y, memory.x, types.input->dlpack, a, b),
                        tensor_matrix(&dy, memory.dy, types.input->dlpack, a, b),
                        tensor_matrix(&dx, memory.y, types.output->dlpack, a, b), NULL, axis_first ? 0 : 1);
    call.options.isa = current_set;
    call.options.empty_rows = empty;
    if (!library_run_ok(&call, words))
        return;
    for (int64_t r = 0; r < count; r++) {
        for (int64_t j = 0; j < columns; j++) {
            kind kind = empty ? rows[r].row_zero : rows[r].row;
            if (kind == ORDINARY && is_at(rows[r].where, j, columns) && rows[r].y == none)
                kind = A_ZERO;
            check_kind(types.output, memory.y, at(r, j, count, columns, axis_first), kind, rows[r].name, j);
        }
    }
}

int main(void)
{
    const char *sets[MAX_SETS];
    int set_count = library_instruction_sets(sets, MAX_SETS);
    for (int s = 0; s < set_count; s++) {
        current_set = sets[s];
        for (int f = 0; f < 6; f++) {
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                for (int operation = SOFTMAX; operation <= LOGSUMEXP; operation++)
                    test_scores((enum operation)operation, types_of(f), widths[w]);
                for (int variant = 0; variant < 4; variant++) {
                    int empty = variant & 1 ? SOFTMAX_EMPTY_ZERO : SOFTMAX_EMPTY_NAN;
                    test_backward(SOFTMAX_BACKWARD, types_of(f), widths[w], empty, variant & 2);
                    test_backward(LOG_SOFTMAX_BACKWARD, types_of(f), widths[w], empty, variant & 2);
                }
                test_empty_rows(types_of(f), widths[w]);
            }
        }
    }
    return check_finish("special");
}
