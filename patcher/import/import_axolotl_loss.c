/*
 * patcher/import/import_axolotl_loss.c - Axolotl's losses of a token other than
 * cross-entropy.
 *
 * axolotl-ai-cloud/axolotl at 173ff01e: monkeypatch/loss/eaft.py, core/trainers/dft.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

enum { EAFT_TOKENS = 20 }; /* of LLaMA-Factory, and so of a job */

static void import_eaft(struct importing *im)
{
    const struct entry *k = import_find(im, "eaft_k");
    double tokens = import_number(im, "eaft_k", EAFT_TOKENS);

    import_copy(im, "use_eaft", "use_eaft_loss",
                "the entropy is divided by 3, as in LLaMA-Factory; Axolotl does not, so "
                "its losses and gradients are larger by 3 to the power of eaft_alpha");
    if (import_find(im, "eaft_alpha"))
        import_copy(im, "eaft_alpha", "eaft_alpha", NULL);
    if (k && tokens != EAFT_TOKENS)
        import_mark_dropped(im, "eaft_k", IMPORT_DIFFERS,
                            "the entropy is always that of the 20 most likely tokens");
    import_mark_dropped(im, "eaft_k", IMPORT_IDLE, "the number that a job uses");
}

void import_axolotl_loss(struct importing *im)
{
    if (import_is_true(im, "use_dft"))
        import_copy(im, "use_dft", "use_dft_loss", NULL);
    if (import_is_true(im, "use_eaft"))
        import_eaft(im);
    import_mark_idle(im, "use_dft", "off");
    import_mark_idle(im, "use_eaft", "off");
    import_mark_idle(im, "eaft_alpha", "only with use_eaft");
    import_mark_idle(im, "eaft_k", "only with use_eaft");
}
