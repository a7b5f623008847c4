/*
 * patcher/import/import_axolotl_packing.c - how Axolotl forms sequences from samples:
 * packed or single, and the treatment of samples that are too long.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: prompt_strategies/completion.py and pretrain.py,
 * utils/data/streaming.py and utils.py.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

/* ---- plain text ---- */

/* Stage pt has two ways (train/dataset/dataset_tokens.c): all texts joined and cut into
 * blocks of cutoff_len, or one text per sequence, truncated to cutoff_len.  Axolotl has
 * five. */
enum flow {
    FLOW_PIECES,  /* completion: each text in pieces of sequence_len */
    FLOW_PACKED,  /* the same, packed */
    FLOW_WINDOWS, /* pretraining_dataset, packed */
    FLOW_JOINED,  /* the same with pretraining_sample_concatenation */
    FLOW_CUT,     /* pretraining_dataset by default */
};

static const char attention_remark[] =
    "texts in one block can attend to each other; in Axolotl they cannot";

static const char *const flow_remarks[] = {
    [FLOW_PIECES] =
        "Axolotl cuts each text into pieces of sequence_len (at most 64), each of them a "
        "sample; this job does not lose text either, but texts in one block can attend "
        "to each other, and short texts make fewer steps; with packing: false, each text "
        "is one sample, truncated to cutoff_len",
    [FLOW_PACKED] = attention_remark,
    [FLOW_WINDOWS] =
        "a text that is cut continues in the next block; in Axolotl, each piece ends "
        "with an end token, and the next piece starts by repeating the last 256 tokens",
    [FLOW_JOINED] =
        "Axolotl takes the first sequence_len - 2 tokens of each text, and starts a new "
        "block for a text that does not fit; this job does not lose text",
    [FLOW_CUT] =
        "as in Axolotl 0.7 and later, except for an end token after each text that is "
        "not truncated; earlier versions joined the texts, as packing: true does",
};

static enum flow flow_of(const struct importing *im)
{
    bool packs = import_is_true(im, "sample_packing");

    if (!import_find(im, "pretraining_dataset"))
        return packs ? FLOW_PACKED : FLOW_PIECES;
    if (packs)
        return FLOW_WINDOWS;
    return import_is_true(im, "pretraining_sample_concatenation") ? FLOW_JOINED
                                                                  : FLOW_CUT;
}

/* Report whether the packed texts of pretraining_dataset can attend to each other. */
static void import_attention(struct importing *im)
{
    const struct entry *entry = import_find(im, "pretrain_multipack_attn");

    if (entry && import_is_off(entry->value)) {
        import_mark_carried(im, "pretrain_multipack_attn", "packing");
        return;
    }
    import_remark(im, "packing", "%s", attention_remark);
    if (entry)
        import_mark_dropped(im, "pretrain_multipack_attn", IMPORT_DIFFERS, "%s",
                            attention_remark);
}

static void pack_texts(struct importing *im)
{
    enum flow flow = flow_of(im);
    bool is_cut = flow == FLOW_CUT;

    import_set(im, "packing", is_cut ? "false" : "true",
               is_cut ? "each text is a sample, truncated to cutoff_len"
                      : "texts are joined and cut into blocks of cutoff_len");
    if (flow == FLOW_WINDOWS)
        import_attention(im);
    import_remark(im, "packing", "%s", flow_remarks[flow]);
    if (flow == FLOW_PACKED || flow == FLOW_WINDOWS || is_cut)
        import_mark_carried(im, "sample_packing", "packing");
    else if (flow == FLOW_PIECES && import_find(im, "sample_packing"))
        import_mark_dropped(
            im, "sample_packing", IMPORT_DIFFERS,
            "off, but without packing, texts longer than cutoff_len would be truncated");
    if (flow == FLOW_JOINED || is_cut)
        import_mark_carried(im, "pretraining_sample_concatenation", "packing");
    import_mark_dropped(im, "excess_length_strategy", IMPORT_IDLE,
                        "no piece of a text is longer than sequence_len");
}

/* ---- conversations ---- */

static void pack_samples(struct importing *im)
{
    const char *strategy = import_get(im, "excess_length_strategy");

    if (import_is_preference(im)) {
        import_mark_idle(im, "sample_packing", "pairs are not packed");
    } else if (import_is_true(im, "sample_packing")) {
        import_set(im, "packing", "true", NULL);
        import_set(im, "neat_packing", "true",
                   "packed samples cannot attend to each other");
        import_mark_carried(im, "sample_packing", "neat_packing");
    }
    if (import_find(im, "processor_type"))
        import_remark(im, "cutoff_len",
                      "Axolotl does not apply sequence_len to images and sound; this job "
                      "leaves out a record whose images or sound do not fit");
    else if (!strategy || strcmp(strategy, "drop") == 0)
        import_remark(im, "cutoff_len",
                      "Axolotl drops longer samples; this job truncates them");
    if (strategy && strcmp(strategy, "truncate") == 0)
        import_mark_carried(im, "excess_length_strategy", "cutoff_len");
    else
        import_mark_dropped(im, "excess_length_strategy", IMPORT_DIFFERS,
                            "longer samples are truncated");
}

void import_axolotl_packing(struct importing *im, bool is_text)
{
    if (is_text)
        pack_texts(im);
    else
        pack_samples(im);
    if (import_is_true(im, "sample_packing") && import_find(im, "eval_sample_packing") &&
        !import_is_true(im, "eval_sample_packing") &&
        !import_find(im, "dataloader_drop_last"))
        import_set(im, "dataloader_drop_last", "true",
                   "as in Axolotl with eval_sample_packing: false");
    import_mark_dropped(im, "sample_packing", IMPORT_IDLE, "off");
}
