/* runner/job/plan_rewards.c - references as text, and the settings of stage grpo, also as
 * JSON. */
#include "config.h"

#include "runner/job/plan_rewards.h"

#include <inttypes.h>

#include "patcher/rules/teacher.h"
#include "patcher/schema/schema.h"
#include "runner/output/report.h"

static const char *word(const char *key, int value)
{
    return schema_find(key)->values[value];
}

json_t *plan_rewards_json(const struct plan *plan)
{
    const struct reinforcement *g = &plan->grpo;
    json_t *object;

    if (plan->stage != STAGE_GRPO)
        return json_null();
    object = json_object();
    json_object_set_new(object, "num_generations", json_integer(g->num_generations));
    json_object_set_new(object, "prompts", json_integer(plan_generation_prompts(plan)));
    json_object_set_new(object, "uses", json_integer(plan_generation_uses(plan)));
    json_object_set_new(object, "max_completion_length",
                        json_integer(g->max_completion_length));
    json_object_set_new(object, "temperature", json_number(plan->generation.temperature));
    json_object_set_new(object, "reward_funcs", json_string(g->rewards));
    json_object_set_new(object, "loss_type", json_string(g->loss_type));
    json_object_set_new(object, "scale_rewards",
                        json_string(word("scale_rewards", g->scale)));
    json_object_set_new(object, "beta", json_number(g->beta));
    json_object_set_new(object, "epsilon", json_number(g->epsilon));
    json_object_set_new(object, "epsilon_high",
                        json_number(g->epsilon_high > 0 ? g->epsilon_high : g->epsilon));
    json_object_set_new(object, "reference",
                        json_string(ref_model_names[ref_model_of(plan)]));
    return object;
}

void plan_reference_text(struct text *out, const struct plan *plan)
{
    static const char *const words[REF_MODELS] = {
        [REF_MODEL_NONE] = "no reference model",
        [REF_MODEL_BASE] = "compared with the model without its adapter",
        [REF_MODEL_COPY] = "compared with the initial model",
        [REF_MODEL_FOLDER] = "compared with ",
    };
    const enum ref_model reference = ref_model_of(plan);
    char bytes[16];

    text_adds(out, words[reference]);
    if (reference == REF_MODEL_FOLDER)
        report_visible(out, plan->preference.reference);
    if (teacher_adapter(plan)) {
        text_adds(out, " with ");
        report_visible(out, teacher_adapter(plan));
    }
    if (plan->kd.config) {
        memory_text(plan->teacher_bytes, bytes);
        text_addf(out, ", %s, %s of weights", format_dtype(plan->kd.format), bytes);
    }
}

static void add_reinforcement(struct text *out, const struct plan *plan)
{
    const struct reinforcement *g = &plan->grpo;
    int64_t prompts = plan_generation_prompts(plan), uses = plan_generation_uses(plan);

    text_addf(
        out,
        "  answers     %" PRId64 " to each of %" PRId64 " prompt%s, at most %" PRId64
        " tokens, temperature %g, for %" PRId64 " step%s\n",
        g->num_generations, prompts, prompts == 1 ? "" : "s", g->max_completion_length,
        plan->generation.temperature, uses, uses == 1 ? "" : "s");
    text_adds(out, "  rewards     ");
    report_visible(out, g->rewards);
    if (g->weights) {
        text_adds(out, " times ");
        report_visible(out, g->weights);
    }
    text_addf(out, "; loss %s, beta %g\n              ", g->loss_type, g->beta);
    plan_reference_text(out, plan);
    text_addc(out, '\n');
}

void plan_rewards_text(struct text *out, const struct plan *plan)
{
    if (plan->stage == STAGE_GRPO && !plan->external)
        add_reinforcement(out, plan);
}
