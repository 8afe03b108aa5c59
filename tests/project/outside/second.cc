#include <softmax.h>

#include <cstdio>
#include <stdlib.h> // the C++ library's, which must still find the C one behind it

int main()
{
    float scores[3] = {1, 2, 3}, p[3];
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    options.threads = 2;
    softmax_status status = softmax_softmax_rows(SOFTMAX_FLOAT32, 1, 3, scores, p, &options);
    std::printf("%s %s: %.4f %.4f %.4f\n", softmax_version(), softmax_status_string(status), p[0], p[1], p[2]);
    return status;
}
