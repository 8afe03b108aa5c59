/* softmax compare */
#ifndef SOFTMAX_CLI_COMPARE_H
#define SOFTMAX_CLI_COMPARE_H

#include "arguments.h"

void compare(const arguments *arguments);

#endif
