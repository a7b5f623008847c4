/* tests/fuzz/fuzz_adapter.c - adapter_config.json: it is rejected, or reads back as the
 * same adapter after it was written. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

#include "train/model/lora_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct model_config config = { .architecture = architecture_find("llama"),
                                         .layers = 2 };
    struct lora lora, again;
    struct error err = { 0 };
    struct text text;

    fuzz_file("adapter_config.json", data, len);
    if (!lora_config_read(fuzz_dir(), &config, &lora, &err)) {
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
        return 0;
    }
    FUZZ_HOLDS(lora.rank >= 1 && isfinite(lora.scale) && lora.dropout < 1);
    text_init(&text, 0);
    FUZZ_HOLDS(lora_write_config(&lora, architecture_find("llama"), "base", &text));
    fuzz_file("adapter_config.json", text.data, text.len);
    FUZZ_HOLDS(lora_config_read(fuzz_dir(), &config, &again, &err));
    FUZZ_HOLDS(again.rank == lora.rank && again.alpha == lora.alpha &&
               again.scale == lora.scale);
    FUZZ_HOLDS(memcmp(again.adapted, lora.adapted, sizeof(lora.adapted)) == 0);
    FUZZ_HOLDS(memcmp(again.saved, lora.saved, sizeof(lora.saved)) == 0);
    text_clear(&text);
    return 0;
}
