/* tests/fuzz/fuzz_json.c - JSON: every value that is read can be written and reads back
 * the same. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct error err = { 0 };
    json_t *value = json_read_text((const char *)data, len, "fuzz", 1, &err), *again;
    struct text out;

    if (!value) {
        if (err.code != ERROR_DATA || err.at.line < 1)
            abort();
        return 0;
    }
    text_init(&out, 0);
    if (!json_write(value, &out))
        abort();
    again = json_read_text(out.data, out.len, "fuzz", 1, &err);
    if (!again || !json_equal(value, again))
        abort();
    json_decref(again);
    json_decref(value);
    text_clear(&out);
    return 0;
}
