/* softmax run */
#ifndef SOFTMAX_CLI_RUN_H
#define SOFTMAX_CLI_RUN_H

#include "arguments.h"

void run(const arguments *arguments);

#endif
