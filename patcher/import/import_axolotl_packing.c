/*
 * patcher/import/import_axolotl_packing.c - how samples come to rows in Axolotl: packed, each
 * for itself, and what becomes of those that are longer than one.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: prompt_strategies/completion.py and pretrain.py,
 * utils/data/streaming.py and utils.py.
 */
#include "config.h"

#include "patcher/import/import_parts.h"

#include <string.h>

/* ---- plain text ---- */

/*
 * Stage pt knows two ways (train/dataset/dataset_tokens.c): all texts as one, in blocks of
 * cutoff_len, or each as a row, which loses what is longer.  Axolotl has five.
 */
enum flow {
    FLOW_PIECES,  /* completion: each text in pieces of sequence_len */
    FLOW_PACKED,  /* the same, packed */
    FLOW_WINDOWS, /* pretraining_dataset, packed */
    FLOW_JOINED,  /* the same by pretraining_sample_concatenation */
    FLOW_CUT,     /* pretraining_dataset where nothing is said */
};

static const char apart[] = "the texts of a block see each other here; in Axolotl they "
                            "do not";

static const char *const flow_remarks[] = {
    [FLOW_PIECES] =
        "Axolotl cuts each text in pieces of sequence_len (64 at most), each a sample; "
        "nothing of a text is lost here either, but texts that share a block see each "
        "other, and short ones make fewer steps; packing: false has each text in a "
        "sample of its own, and leaves out what is beyond cutoff_len",
    [FLOW_PACKED] = apart,
    [FLOW_WINDOWS] =
        "a text goes on in the next block where it was cut; in Axolotl each piece has "
        "an end behind it, and the next begins with its last 256 tokens once more",
    [FLOW_JOINED] =
        "Axolotl takes the first sequence_len - 2 tokens of each text, and a text that "
        "does not fit begins a new block; here nothing of a text is lost",
    [FLOW_CUT] =
        "as Axolotl from 0.7 on, but with an end behind each text that is not cut off; "
        "older ones joined the texts, as packing: true does",
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

/* Of pretraining_dataset: are packed texts kept apart? */
static void import_apart(struct importing *im)
{
    const struct entry *entry = import_find(im, "pretrain_multipack_attn");

    if (entry && import_is_off(entry->value)) {
        import_took(im, "pretrain_multipack_attn", "packing");
        return;
    }
    import_remark(im, "packing", "%s", apart);
    if (entry)
        import_left(im, "pretrain_multipack_attn", IMPORT_DIFFERS, "%s", apart);
}

static void pack_texts(struct importing *im)
{
    enum flow flow = flow_of(im);
    bool is_cut = flow == FLOW_CUT;

    import_set(im, "packing", is_cut ? "false" : "true",
               is_cut ? "each text is a sample, cut off at cutoff_len"
                      : "texts are joined, and cut in blocks of cutoff_len");
    if (flow == FLOW_WINDOWS)
        import_apart(im);
    import_remark(im, "packing", "%s", flow_remarks[flow]);
    if (flow == FLOW_PACKED || flow == FLOW_WINDOWS || is_cut)
        import_took(im, "sample_packing", "packing");
    else if (flow == FLOW_PIECES && import_find(im, "sample_packing"))
        import_left(
            im, "sample_packing", IMPORT_DIFFERS,
            "off, but without packing a text that is longer than cutoff_len would lose "
            "its rest");
    if (flow == FLOW_JOINED || is_cut)
        import_took(im, "pretraining_sample_concatenation", "packing");
    import_left(im, "excess_length_strategy", IMPORT_IDLE,
                "no piece of a text is longer than sequence_len");
}

/* ---- conversations ---- */

static void pack_samples(struct importing *im)
{
    const char *strategy = import_get(im, "excess_length_strategy");

    if (import_is_of_pairs(im)) {
        import_idle(im, "sample_packing", "pairs are not packed");
    } else if (import_is_true(im, "sample_packing")) {
        import_set(im, "packing", "true", NULL);
        import_set(im, "neat_packing", "true", "packed samples do not see each other");
        import_took(im, "sample_packing", "neat_packing");
    }
    if (!strategy || strcmp(strategy, "drop") == 0)
        import_remark(im, "cutoff_len",
                      "Axolotl leaves out samples that are longer; here they are cut");
    if (strategy && strcmp(strategy, "truncate") == 0)
        import_took(im, "excess_length_strategy", "cutoff_len");
    else
        import_left(im, "excess_length_strategy", IMPORT_DIFFERS,
                    "samples that are longer are cut off");
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
    import_left(im, "sample_packing", IMPORT_IDLE, "off");
}
