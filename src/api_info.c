/* What this library is, in words. */
#include <softmax.h>

#define WORDS(x) #x
#define VERSION(major, minor, patch) WORDS(major) "." WORDS(minor) "." WORDS(patch)

const char *softmax_version(void)
{
    return VERSION(SOFTMAX_VERSION_MAJOR, SOFTMAX_VERSION_MINOR, SOFTMAX_VERSION_PATCH);
}

const char *softmax_status_string(softmax_status status)
{
    switch (status) {
    case SOFTMAX_OK:
        return "success";
    case SOFTMAX_ERROR_NULL:
        return "a required pointer is NULL";
    case SOFTMAX_ERROR_TYPE:
        return "an argument has a type that it cannot have";
    case SOFTMAX_ERROR_SHAPE:
        return "an argument's shape does not fit";
    case SOFTMAX_ERROR_AXIS:
        return "the axis is out of range";
    case SOFTMAX_ERROR_STRIDE:
        return "an argument's strides are not allowed";
    case SOFTMAX_ERROR_ALIAS:
        return "an output overlaps another argument";
    case SOFTMAX_ERROR_OPTION:
        return "an option is out of its range";
    case SOFTMAX_ERROR_TARGET:
        return "a target is neither a class nor ignore_index";
    case SOFTMAX_ERROR_DEVICE:
        return "a device that cannot be used";
    case SOFTMAX_ERROR_ISA:
        return "an instruction set that is unknown or not available";
    case SOFTMAX_ERROR_STATE:
        return "states that were not initialised, or are of different types";
    }
    return "an unknown status";
}
