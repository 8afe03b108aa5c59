/* An array as text, for people: nested rows; long dimensions are shortened. */
#ifndef SOFTMAX_CLI_PRINT_H
#define SOFTMAX_CLI_PRINT_H

#include "npy_file.h"

void print_array(const npy_array *array);

#endif
