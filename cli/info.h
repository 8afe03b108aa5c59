/* softmax info */
#ifndef SOFTMAX_CLI_INFO_H
#define SOFTMAX_CLI_INFO_H

void info(void);

#endif
