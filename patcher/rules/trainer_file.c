/* patcher/rules/trainer_file.c - number formats, as each trainer derives them from its
 * file. */
#include "config.h"

#include "patcher/rules/trainer_file.h"

#include <string.h>

#include "base/size.h"
#include "patcher/rules/python_value.h"
#include "patcher/rules/rules_context.h"

bool trainer_file_is_foreign(const struct rule_context *context)
{
    return profile_at(context->view->trainer)->rules != NULL;
}

const struct entry *trainer_file_entry(const struct rule_context *context,
                                       const char *path)
{
    const struct node *map = context->document->root;
    const struct entry *entry = NULL;

    for (const char *at = path; *at; at += *at == '.') {
        size_t len = strcspn(at, ".");

        if (map->kind != NODE_MAP ||
            !(entry = node_find(map, arena_copy(context->arena, at, len))))
            return NULL;
        map = node_value(entry->value);
        at += len;
    }
    return entry;
}

static struct python_value read_key(const struct rule_context *context, const char *key)
{
    const struct entry *entry = trainer_file_entry(context, key);

    return entry ? python_value_read(key, entry->value, python_reader_of(context))
                 : (struct python_value) { .text = "" };
}

static bool is_true(const struct rule_context *context, const char *key)
{
    const struct python_value value = read_key(context, key);

    return python_value_is_true(&value) && strcmp(value.text, "auto") != 0;
}

/* Name the line that decides. */
static void set_request(const struct rule_context *context, const char *key,
                        struct trainer_formats *out)
{
    out->entry = trainer_file_entry(context, key);
    out->request =
        out->entry
            ? arena_printf(context->arena, "%s: %s", key,
                           rule_printable(context, node_value(out->entry->value)->text))
            : arena_printf(context->arena, "the default of %s", key);
}

/* ---- Axolotl ---- */

/* AxolotlInputConfig: bf16 is `auto` if the file has no such key, and off if its value is
 * null. */
static bool is_auto(const struct rule_context *context)
{
    const struct entry *entry = trainer_file_entry(context, "bf16");

    return !entry || strcmp(node_value(entry->value)->text, "auto") == 0;
}

/* DeepSpeed, and FSDP as configured by Accelerate, update float32 copies. */
static bool has_copies(const struct rule_context *context)
{
    return is_true(context, "deepspeed") || is_true(context, "fsdp") ||
           is_true(context, "fsdp_config");
}

/* utils/config/__init__.py, normalize_config; since 0.13 resolve_dtype.  `auto` asks
 * torch.cuda.is_bf16_supported, which counts emulation since torch 2.4; Axolotl requires
 * 2.4 since 0.8. */
struct axolotl {
    bool bf16, fp16;
    const char *key; /* that decided */
};

static struct axolotl resolve(const struct rule_context *context)
{
    struct axolotl out = { is_true(context, "bf16"), is_true(context, "fp16"), "bf16" };
    bool automatic = is_auto(context);

    if (out.fp16 && !out.bf16)
        out.key = "fp16";
    /* before 0.9.1, auto took precedence over fp16: true */
    if (automatic && out.fp16 && rule_version_below(context, PACKAGE_AXOLOTL, "0.9.1"))
        out.fp16 = false;
    if (automatic && !out.fp16) {
        out.bf16 = !rule_lacks_bf16(context) ||
                   !rule_version_below(context, PACKAGE_TORCH, "2.4.0.dev0");
        out.fp16 =
            !out.bf16 && !is_true(context, "float16") &&
            (is_true(context, "fp16") || read_key(context, "fp16").kind == PYTHON_NONE);
    }
    if (out.bf16)
        out.fp16 = false;
    return out;
}

/* loaders/model.py loads the weights in cfg.torch_dtype, also those that are trained
 * without an adapter; PEFT casts adapters to float32.  core/builders: TrainingArguments
 * gets fp16, or bf16 || bfloat16. */
static void read_axolotl(const struct rule_context *context, struct trainer_formats *out)
{
    const struct axolotl key = resolve(context);
    bool bfloat16 = is_true(context, "bfloat16"), float16 = is_true(context, "float16");
    bool adapter = is_true(context, "adapter");

    out->known = true;
    out->automatic = is_auto(context) && strcmp(key.key, "bf16") == 0 && !bfloat16;
    set_request(context,
                is_true(context, "bf16") ? "bf16"
                : bfloat16               ? "bfloat16"
                : key.bf16 || key.fp16   ? key.key
                : float16                ? "float16"
                                         : "bf16",
                out);
    out->weights = key.bf16 || bfloat16 ? FORMAT_BF16
                   : is_true(context, "load_in_8bit") || key.fp16 || float16
                       ? FORMAT_FP16
                       : FORMAT_FP32;
    out->autocast = key.fp16               ? FORMAT_FP16
                    : key.bf16 || bfloat16 ? FORMAT_BF16
                                           : FORMAT_FP32;
    out->trained = adapter || has_copies(context) ? FORMAT_FP32 : out->weights;
    out->scaled = key.fp16;
}

/* ---- torchtune ---- */

/* training/precision.py, get_dtype: weights, activations, gradients and moments have one
 * format; LoRA's, too.  No recipe has a loss scaler. */
static void read_torchtune(const struct rule_context *context,
                           struct trainer_formats *out)
{
    static const struct {
        const char *name;
        enum format format;
    } names[] = { { "bf16", FORMAT_BF16 }, { "fp16", FORMAT_FP16 } };
    const char *dtype = read_key(context, "dtype").text;

    set_request(context, "dtype", out);
    out->known = out->entry != NULL;
    out->weights = FORMAT_FP32;
    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (strcmp(names[i].name, dtype) == 0)
            out->weights = names[i].format;
    out->trained = out->weights;
    out->autocast = FORMAT_FP32;
}

/* ---- Lightning ---- */

/* lightning/fabric/plugins/precision/precision.py and fabric/connector.py: the values of
 * `precision`, and the older names. */
static const struct precision_name {
    const char *name;
    enum format autocast, weights;
    bool scaled;
} precision_names[] = {
    { "16-mixed", FORMAT_FP16, FORMAT_FP32, true },
    { "16", FORMAT_FP16, FORMAT_FP32, true },
    { "16-true", FORMAT_FP32, FORMAT_FP16, false },
    { "bf16-mixed", FORMAT_BF16, FORMAT_FP32, false },
    { "bf16", FORMAT_BF16, FORMAT_FP32, false },
    { "bf16-true", FORMAT_FP32, FORMAT_BF16, false },
    { "transformer-engine", FORMAT_FP8_E4M3, FORMAT_BF16, false },
    { "transformer-engine-float16", FORMAT_FP8_E4M3, FORMAT_FP16, false },
};

static void read_lightning(const struct rule_context *context,
                           struct trainer_formats *out)
{
    const char *name = read_key(context, "trainer.precision").text;

    set_request(context, "trainer.precision", out);
    out->known = true;
    out->autocast = out->weights = FORMAT_FP32;
    for (size_t i = 0; i < TS_COUNT(precision_names); i++)
        if (strcmp(precision_names[i].name, name) == 0) {
            out->autocast = precision_names[i].autocast;
            out->weights = precision_names[i].weights;
            out->scaled = precision_names[i].scaled;
        }
    out->trained = out->weights;
}

struct trainer_formats trainer_file_formats(const struct rule_context *context)
{
    static void (*const readers[TRAINERS])(const struct rule_context *,
                                           struct trainer_formats *) = {
        [TRAINER_AXOLOTL] = read_axolotl,
        [TRAINER_TORCHTUNE] = read_torchtune,
        [TRAINER_LIGHTNING] = read_lightning,
    };
    struct trainer_formats out = { .request = "" };

    if (readers[context->view->trainer])
        readers[context->view->trainer](context, &out);
    return out;
}
