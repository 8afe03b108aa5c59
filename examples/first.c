/* The shortest program: one row of scores, one call.   cc first.c -lsoftmax && ./a.out */
#include <softmax.h>
#include <stdio.h>

int main(void)
{
    float x[3] = {1000.0f, 1001.0f, 1002.0f}, y[3];
    softmax_softmax_rows(SOFTMAX_FLOAT32, 1, 3, x, y, NULL);
    printf("%g %g %g\n", y[0], y[1], y[2]);
    return 0;
}
