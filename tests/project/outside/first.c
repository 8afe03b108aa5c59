#include <softmax.h>
#include <stdio.h>

int main(void)
{
    float scores[3] = {1, 2, 3}, p[3];
    softmax_status status = softmax_softmax_rows(SOFTMAX_FLOAT32, 1, 3, scores, p, NULL);
    printf("%s %s: %.4f %.4f %.4f\n", softmax_version(), softmax_status_string(status), p[0], p[1], p[2]);
    return status;
}
