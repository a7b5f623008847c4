/* tests/unit/test_lora.c - tests targets, and adapter_config.json when read and
 * written. */
#include "config.h"

#include "train/model/lora.h"
#include "train/model/adapter_targets.h"
#include "train/model/lora_config.h"
#include "train/model/singular.h"

#include <math.h>
#include <sched.h>

#include "base/arena.h"
#include "base/random.h"
#include "base/size.h"
#include "tests/unit/unit.h"

#define LLAMA architecture_find("llama")
/* Two layers of an architecture. */
#define CONFIG(name) \
    (&(struct model_config) { .architecture = architecture_find(name), .layers = 2 })

static struct plan plan_of(const char *target)
{
    return (
        struct plan) { .method = METHOD_LORA, .lora_rank = 16, .lora_target = target };
}

static void test_lora_reads_the_plan(void **state)
{
    struct plan plan = plan_of("all");
    struct lora lora;
    struct error err = { 0 };

    (void)state;
    assert_true(lora_read(&plan, CONFIG("llama"), &lora, &err));
    assert_true(lora.adapted[MODULE_Q] && lora.adapted[MODULE_DOWN]);
    assert_false(lora.adapted[MODULE_HEAD] || lora.adapted[MODULE_EMBED]);
    assert_true(lora.alpha == 32 && lora.scale == 2);
    plan = plan_of("self_attn.q_proj, v_proj");
    plan.lora_alpha = 8;
    plan.use_rslora = true;
    plan.additional_target = "embed_tokens,v_proj";
    assert_true(lora_read(&plan, CONFIG("llama"), &lora, &err));
    assert_true(lora.adapted[MODULE_Q] && !lora.adapted[MODULE_K]);
    assert_true(lora.saved[MODULE_EMBED] && lora.saved[MODULE_V]);
    assert_false(lora.adapted[MODULE_V]); /* trained as a whole */
    assert_true(lora.scale == 8 / sqrt(16));
    plan.method = METHOD_FULL;
    assert_true(lora_read(&plan, CONFIG("llama"), &lora, &err));
    assert_int_equal(lora.rank, 0);
}

/* Whole names are compared, as by PEFT: check_target_module_exists. */
static void test_lora_target_may_be_a_pattern(void **state)
{
    static const struct {
        const char *target,
            *message; /* NULL: q and up get an adapter, k and norms none */
    } cases[] = {
        { "model.layers.[\\d]+.(mlp|self_attn).(up|down|q)_proj", NULL },
        { "model\\.layers\\.\\d{1,2}\\.(?!self_attn\\.[kv]).*_proj", NULL },
        { ".*[qp]_proj", NULL },
        { "(q|up)_proj", "lora_target: the pattern matches no layer" },
        { "model.layers.[0].mlp.up_proj",
          "lora_target: the adapter is on up_proj in 1 of 2 layers" },
        { ".*(q_proj|lm_head)", "lora_target: an adapter on lm_head is not supported" },
        { ".*(q_proj|layernorm)", "input_layernorm is not a linear layer" },
        { ".*(q_proj", "lora_target" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = plan_of(cases[i].target);
        struct error err = { 0 };
        struct lora lora;
        bool ok = lora_read(&plan, CONFIG("llama"), &lora, &err);

        if (cases[i].message) {
            assert_true(!ok && err.code == ERROR_JOB);
            assert_non_null(strstr(err.text, cases[i].message));
            continue;
        }
        if (!ok)
            fail_msg("%s: %s", cases[i].target, err.text);
        assert_true(lora.adapted[MODULE_Q] && lora.adapted[MODULE_UP]);
        assert_false(lora.adapted[MODULE_K] || lora.adapted[MODULE_NORM1]);
    }
}

/* Layers of the encoder have adapters if it is trained, and those of a frozen text model do not. */
static void test_lora_patterns_name_encoders(void **state)
{
#define TEXT    ".*self_attn\\.q_proj"
#define ENCODER "model\\.visual\\.blocks\\.\\d+\\.attn\\.qkv"
    static const struct {
        const char *target;
        bool trains, freezes_text, text, encoder, refused;
    } cases[] = {
        { ENCODER, .trains = true, .encoder = true },
        { ENCODER, .refused = true },
        { "(" TEXT "|" ENCODER ")", .trains = true, .text = true, .encoder = true },
        { "(" TEXT "|" ENCODER ")", .text = true },
        { "(" TEXT "|" ENCODER ")", .trains = true, .freezes_text = true,
          .encoder = true },
    };
    static struct encoder_tensor layer = { .name =
                                               "model.visual.blocks.0.attn.qkv.weight",
                                           .path = "model.visual.blocks.0.attn.qkv" };
    char *model = unit_source("tests/patch/model-towers");
    struct arena *arena = arena_new();
    struct model_config config;
    struct error err = { 0 };

    (void)state;
    assert_true(model_config_read(model, arena, &config, &err));
    config.encoder = (struct encoder_list) { .list = &layer, .count = 1 };
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = plan_of(cases[i].target);
        struct lora lora;

        plan.freeze_vision_tower = !cases[i].trains;
        plan.freeze_language_model = cases[i].freezes_text;
        error_clear(&err);
        assert_int_equal(lora_read(&plan, &config, &lora, &err), !cases[i].refused);
        if (cases[i].refused) {
            assert_non_null(
                strstr(err.text, "only layers of the encoder, which is frozen"));
            continue;
        }
        assert_int_equal(lora.adapted[MODULE_Q], cases[i].text);
        assert_int_equal(lora.encoder_count, cases[i].encoder);
    }
    free(model);
    arena_free(arena);
#undef TEXT
#undef ENCODER
}

/* No projector has adapters.  A job does without them; those of a file would be lost. */
static void test_lora_leaves_projectors_out(void **state)
{
#define BOTH ".*(language_model\\.layers\\.\\d+\\.self_attn\\.q_proj|merger\\.mlp\\.[02])"
    static const char adapter[] =
        "{\"peft_type\": \"LORA\", \"r\": 8, \"target_modules\": "
        "\".*(q_proj|merger\\\\.mlp\\\\.0)\"}";
    struct plan plan = plan_of(BOTH);
    char *model = unit_source("tests/patch/model-towers"), *dir = unit_dir_new(), *path;
    struct arena *arena = arena_new();
    struct model_config config;
    struct error err = { 0 };
    struct lora lora;

    (void)state;
    assert_true(model_config_read(model, arena, &config, &err));
    assert_true(lora_read(&plan, &config, &lora, &err));
    assert_true(lora.adapted[MODULE_Q] && lora.names_projector);
    for (enum module i = 0; i < MODULES; i++)
        assert_false(module_is_of_projector(i) && lora.adapted[i]);
    plan = plan_of(".*merger\\.mlp\\.[02]");
    assert_false(lora_read(&plan, &config, &lora, &err));
    assert_non_null(strstr(err.text, "the pattern matches no layer"));
    path = path_join(dir, "adapter_config.json");
    assert_true(file_replace(path, adapter, sizeof(adapter) - 1, 0600, &err));
    error_clear(&err);
    assert_false(lora_config_read(dir, &config, &lora, &err));
    assert_non_null(strstr(err.text, "merger.mlp.0 is not supported"));
    free(path);
    unit_dir_free(dir);
    free(model);
    arena_free(arena);
#undef BOTH
}

/* PEFT skips names of no module, but not those of other modules. */
static void test_lora_skips_names_of_no_module(void **state)
{
    static const struct {
        const char *model_type, *target;
        const char *message, *skipped; /* NULL: q gets an adapter */
    } cases[] = {
        { "llama", "q_proj, c_attn,w1", NULL, "c_attn, w1" },
        { "llama", "q_proj,v_proj", NULL, "" },
        { "gpt_oss", "q_proj,gate_proj", NULL, "gate_proj" }, /* experts in one tensor */
        { "llama", "c_attn,w1", "there is no layer \"c_attn\"", "" },
        { "llama", "q_proj,lm_head", "there is no layer \"lm_head\"", "" },
        { "llama", "q_proj,mlp", "there is no layer \"mlp\"", "" },
        { "llama", "q_proj,norm", "there is no layer \"norm\"", "" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct model_config *config = CONFIG(cases[i].model_type);
        struct plan plan = plan_of(cases[i].target);
        struct target_list list =
            adapter_targets_of_job(config->architecture, &plan, "lora_target");
        struct error err = { 0 };
        struct text skipped;
        struct lora lora;

        assert_int_equal(lora_read(&plan, config, &lora, &err), !cases[i].message);
        if (cases[i].message) {
            assert_non_null(strstr(err.text, cases[i].message));
            continue;
        }
        assert_true(lora.adapted[MODULE_Q]);
        assert_false(lora.adapted[MODULE_GATE] || lora.adapted[MODULE_K]);
        text_init(&skipped, 0);
        adapter_targets_add_skipped(&list, cases[i].target, &skipped);
        assert_string_equal(skipped.data, cases[i].skipped);
        text_clear(&skipped);
    }
}

/* Check that the modules written for a target are exactly the intended ones. */
static void check_written(const char *model_type, struct plan plan, const char *written)
{
    const struct architecture *a = architecture_find(model_type);
    struct error err = { 0 };
    struct lora lora;
    struct text text;

    assert_true(lora_read(
        &plan, &(struct model_config) { .architecture = a, .layers = 2 }, &lora, &err));
    text_init(&text, 0);
    assert_true(lora_write_config(&lora, a, "base", &text));
    for (size_t i = text.len = 0; text.data[i]; i++) /* without blanks and line breaks */
        if (text.data[i] != ' ' && text.data[i] != '\n')
            text.data[text.len++] = text.data[i];
    text.data[text.len] = '\0';
    if (!strstr(text.data, written))
        fail_msg("%s: %s is not in %s", model_type, written, text.data);
    text_clear(&text);
}

static void check_names(const char *model_type, const char *target, const char *written)
{
    check_written(model_type, plan_of(target), written);
}

#define SAVED(names) "\"modules_to_save\":" names

/* PEFT matches modules_to_save with the ends of names: "norm" includes every
 * input_layernorm. */
static void test_lora_saved_names_are_as_peft_reads_them(void **state)
{
    static const struct {
        const char *model_type, *target, *written;
    } cases[] = {
        { "llama", "norm",
          SAVED("[\"input_layernorm\",\"post_attention_layernorm\",\"norm\"]") },
        { "llama", "layernorm",
          SAVED("[\"input_layernorm\",\"post_attention_layernorm\"]") },
        { "qwen3", "model.norm,embed_tokens",
          SAVED("[\"embed_tokens\",\"model.norm\"]") },
        { "qwen3", "attn.q_norm,base_model.model.model.norm",
          SAVED("[\"q_norm\",\"model.norm\"]") },
        { "gpt2", "attn.c_proj", SAVED("[\"attn.c_proj\"]") },
        { "gpt2", "c_proj,c_fc", SAVED("[\"c_proj\",\"c_fc\"]") },
        { "llama", "lm_head,model.norm", SAVED("[\"model.norm\",\"lm_head\"]") },
        { "gpt2", "ln_f,wte", SAVED("[\"wte\",\"ln_f\"]") },
        { "gpt_neox", "final_layer_norm", SAVED("[\"final_layer_norm\"]") },
        { "gemma2", "post_attention_layernorm", SAVED("[\"post_attention_layernorm\"]") },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = plan_of("all");

        plan.additional_target = cases[i].target;
        check_written(cases[i].model_type, plan, cases[i].written);
    }
}

/* PEFT warns about the key if it knows no tied module by name, or if none is tied. */
static void test_lora_writes_ties_that_peft_knows(void **state)
{
    static const struct {
        const char *model_type, *target;
        bool tied, message;
    } cases[] = {
        { "llama", "embed_tokens", true, true },
        { "gpt2", "wte", true, true },
        { "gpt_neox", "embed_in", true, false },
        { "llama", "embed_tokens,lm_head", false, false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct architecture *a = architecture_find(cases[i].model_type);
        struct plan plan = plan_of("all");
        struct error err = { 0 };
        struct lora lora;
        struct text text;

        plan.additional_target = cases[i].target;
        assert_true(lora_read(&plan,
                              &(struct model_config) { .architecture = a, .layers = 2 },
                              &lora, &err));
        lora.tied = cases[i].tied;
        text_init(&text, 0);
        assert_true(lora_write_config(&lora, a, "base", &text));
        assert_int_equal(strstr(text.data, "\"ensure_weight_tying\": true") != NULL,
                         cases[i].message);
        text_clear(&text);
    }
}

/* Names of experts end like those of dense layers; of a model without these, the ends say
 * enough. */
static void test_lora_names_of_experts(void **state)
{
    const struct architecture *a = architecture_find("qwen3_moe");
    struct lora lora = { .rank = 8, .alpha = 16 };
    struct text text;

    (void)state;
    lora.adapted[MODULE_Q] = lora.adapted[MODULE_EXPERT_GATE] = true;
    text_init(&text, 0);
    assert_true(lora_write_config(&lora, a, "base", &text));
    assert_non_null(strstr(text.data, "model\\\\.layers\\\\.\\\\d+\\\\.(?:"
                                      "self_attn\\\\.q_proj|mlp\\\\.experts\\\\.\\\\d+"
                                      "\\\\.gate_proj)"));
    lora.absent[MODULE_GATE] = true;
    text_reset(&text);
    assert_true(lora_write_config(&lora, a, "base", &text));
    assert_non_null(strstr(text.data, "\"gate_proj\""));
    assert_null(strchr(text.data, '*'));
    text_clear(&text);
}

static void test_lora_names_of_architectures(void **state)
{
    (void)state;
    check_names("gpt2", "all", "\"target_modules\":[\"c_attn\",\"c_proj\",\"c_fc\"]");
    check_names("gpt2", "c_proj", "\"target_modules\":[\"c_proj\"]");
    check_names("gpt2", "attn.c_proj", "\"target_modules\":[\"attn.c_proj\"]");
    check_names("gpt2", "mlp.c_proj,c_attn",
                "\"target_modules\":[\"c_attn\",\"mlp.c_proj\"]");
    check_names("gpt2", "all", "\"fan_in_fan_out\":true");
    check_names("gpt_neo", "all", "\"fan_in_fan_out\":false");
    check_names("gpt_neo", "all",
                "[\"q_proj\",\"k_proj\",\"v_proj\",\"out_proj\",\"c_fc\",\"c_proj\"]");
    check_names("gpt_neox", "all",
                "[\"query_key_value\",\"dense\",\"dense_h_to_4h\",\"dense_4h_to_h\"]");
    check_names("phi3", "all",
                "[\"qkv_proj\",\"o_proj\",\"gate_up_proj\",\"down_proj\"]");
    check_names("gpt_neox", "dense", "\"target_modules\":[\"dense\"]");
}

/* PEFT refuses LoRA, but not OFT, on the out_proj of a state space model of Falcon-H1. */
static void test_lora_leaves_out_what_peft_refuses(void **state)
{
    const struct model_config *config = CONFIG("falcon_h1");
    struct plan plan = plan_of("all");
    struct error err = { 0 };
    struct lora lora;

    (void)state;
    assert_true(lora_read(&plan, config, &lora, &err));
    assert_true(lora.adapted[MODULE_SCAN_IN] && !lora.adapted[MODULE_SCAN_OUT]);
    plan = plan_of("in_proj,out_proj");
    assert_false(lora_read(&plan, config, &lora, &err));
    assert_non_null(strstr(err.text, "PEFT refuses LoRA on out_proj"));
    err = (struct error) { 0 };
    plan.method = METHOD_OFT;
    plan.oft_block_size = 4;
    assert_true(lora_read(&plan, config, &lora, &err));
    assert_true(lora.adapted[MODULE_SCAN_IN] && lora.adapted[MODULE_SCAN_OUT]);
    plan.oft_target = plan.lora_target = "all";
    assert_true(lora_read(&plan, config, &lora, &err));
    assert_true(lora.adapted[MODULE_SCAN_OUT] && lora.adapted[MODULE_Q]);
}

/* modules_to_save of a file that another program wrote has PEFT's meaning. */
static void test_lora_reads_saved_names_as_peft(void **state)
{
    static const struct {
        const char *names;
        bool all; /* all norms, or only the last norm */
    } cases[] = { { "[\"norm\"]", true },
                  { "[\"model.norm\"]", false },
                  { "[\"base_model.model.model.norm\"]", false } };
    char *dir = unit_dir_new(), *name = path_join(dir, "adapter_config.json");

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct lora lora;
        struct text text;

        text_init(&text, 0);
        text_addf(&text,
                  "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"modules_to_save\": %s}",
                  cases[i].names);
        assert_true(file_replace(name, text.data, text.len, 0600, &err));
        assert_true(lora_config_read(dir, CONFIG("qwen3"), &lora, &err));
        for (enum module j = 0; j < MODULES; j++) {
            const char *leaf = architecture_leaf(architecture_find("qwen3"), j);
            bool norm = leaf && text_ends(leaf, "norm");

            assert_int_equal(lora.saved[j], j == MODULE_NORM || (norm && cases[i].all));
        }
        text_clear(&text);
    }
    free(name);
    unit_dir_free(dir);
}

static void test_lora_config_round_trips(void **state)
{
    struct plan plan = plan_of("q_proj,down_proj");
    char *dir = unit_dir_new(), *name = path_join(dir, "adapter_config.json");
    struct lora lora, again;
    struct error err = { 0 };
    struct text text;

    (void)state;
    plan.lora_dropout = 0.125;
    plan.additional_target = "embed_tokens";
    assert_true(lora_read(&plan, CONFIG("llama"), &lora, &err));
    text_init(&text, 0);
    assert_true(lora_write_config(&lora, LLAMA, "/models/base", &text));
    assert_non_null(strstr(text.data, "\"base_model_name_or_path\": \"/models/base\""));
    assert_non_null(strstr(text.data, "\"task_type\": \"CAUSAL_LM\""));
    assert_true(file_replace(name, text.data, text.len, 0600, &err));
    plan = plan_of("all");
    plan.adapter_name_or_path = dir;
    assert_true(lora_read(&plan, CONFIG("llama"), &again, &err));
    assert_memory_equal(lora.adapted, again.adapted, sizeof(lora.adapted));
    assert_memory_equal(lora.saved, again.saved, sizeof(lora.saved));
    assert_true(again.rank == 16 && again.alpha == 32 && again.dropout == 0.125);
    assert_true(again.scale == lora.scale && !again.rslora);
    plan.create_new_adapter = true;
    assert_true(lora_read(&plan, CONFIG("llama"), &again, &err));
    assert_true(again.adapted[MODULE_K]);
    text_clear(&text);
    free(name);
    unit_dir_free(dir);
}

/* Forms that mean a plain adapter in all layers. */
static void test_lora_config_reads_what_peft_writes(void **state)
{
    static const struct {
        const char *rest;
        bool k;
        double rank, scale;
    } cases[] = {
        { "\"target_modules\": [\"q_proj\", \"k_proj\", \"qkv_proj\"]", true, 8, 2 },
        { "\"target_modules\": \"(?:.*?(?:self_attn|mlp).*?(?:q_proj|k_proj))\"", true, 8,
          2 },
        { "\"target_modules\": \".*\\\\.(q|k)_proj\", \"exclude_modules\": [\"k_proj\"]",
          false, 8, 2 },
        { "\"target_modules\": [\"q_proj\"], \"layers_to_transform\": [1, 0]", false, 8,
          2 },
        { "\"target_modules\": [\"q_proj\", \"k_proj\"], \"rank_pattern\": {\"q_proj\": 4, "
          "\".*k_proj\": 4, \"v_proj\": 2}, \"use_dora\": false, \"trainable_token_indices\": "
          "null, \"loftq_config\": {\"bits\": 4}, \"init_lora_weights\": \"gaussian\"",
          true, 4, 4 },
        { "\"target_modules\": [\"q_proj\"], \"alpha_pattern\": {\"self_attn.q_proj\": 24}, "
          "\"of_next_year\": [], \"arrow_config\": null",
          false, 8, 3 },
        { "\"target_modules\": \"all-linear\", \"exclude_modules\": [\"v_proj\"]", true,
          8, 2 },
    };
    char *dir = unit_dir_new(), *name = path_join(dir, "adapter_config.json");

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct lora lora;
        struct text text;

        text_init(&text, 0);
        text_addf(&text, "{\"r\": 8, \"lora_alpha\": 16, %s}", cases[i].rest);
        assert_true(file_replace(name, text.data, text.len, 0600, &err));
        if (!lora_config_read(dir, CONFIG("llama"), &lora, &err))
            fail_msg("%s: %s", cases[i].rest, err.text);
        assert_true(lora.adapted[MODULE_Q] && !lora.adapted[MODULE_V]);
        assert_int_equal(lora.adapted[MODULE_K], cases[i].k);
        assert_true((double)lora.rank == cases[i].rank && lora.scale == cases[i].scale);
        text_clear(&text);
    }
    free(name);
    unit_dir_free(dir);
}

/* Check that the vectors are orthogonal unit vectors with a right = value left. */
static void check_singular(const float *a, size_t rows, size_t cols,
                           const struct singular *s, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const double *right = s->right + k * cols, *left = s->left + k * rows;

        assert_true(k == 0 || s->values[k] <= s->values[k - 1]);
        for (size_t row = 0; row < rows; row++) {
            double sum = 0;

            for (size_t i = 0; i < cols; i++)
                sum += (double)a[row * cols + i] * right[i];
            assert_true(fabs(sum - s->values[k] * left[row]) <= 1e-9 * s->values[0]);
        }
        for (size_t other = 0; other <= k && s->values[k] > 1e-9 * s->values[0];
             other++) {
            double sum = 0;

            for (size_t i = 0; i < cols; i++)
                sum += right[i] * s->right[other * cols + i];
            assert_true(fabs(sum - (other == k)) <= 1e-12);
        }
    }
}

/* Wide and tall matrices; equal values; values that are zero; all of them. */
static void test_singular_values_and_vectors(void **state)
{
    static const size_t cases[][3] = { { 7, 5, 5 },  { 5, 9, 3 },    { 1, 4, 1 },
                                       { 64, 6, 2 }, { 40, 150, 4 }, { 120, 90, 6 } };

    (void)state;
    for (size_t c = 0; c < 3 * TS_COUNT(cases); c++) {
        const size_t *size = cases[c / 3];
        float *a = memory_alloc(size[0] * size[1] * sizeof(*a));
        double squares = 0, sum = 0;
        struct singular s;

        for (size_t i = 0; i < size[0] * size[1]; i++) {
            a[i] = (float)random_normal(3, RANDOM_INIT, 0, i);
            if (c % 3 == 1) /* all equal */
                a[i] = i / size[1] == i % size[1] ? 2 : 0;
            if (c % 3 == 2) /* of rank 1 */
                a[i] = (float)(i / size[1] + 1) * (float)(i % size[1] + 1) / 8;
            squares += (double)a[i] * a[i];
        }
        s = singular_compute(a, size[0], size[1], size[2], SINGULAR_EXACT);
        check_singular(a, size[0], size[1], &s, size[2]);
        for (size_t k = 0; k < size[2]; k++)
            sum += s.values[k] * s.values[k];
        if (size[2] == size[0] || size[2] == size[1] || c % 3 == 2)
            assert_true(fabs(sum - squares) <= 1e-12 * squares);
        singular_clear(&s);
        free(a);
    }
}

static void test_lora_config_rejects(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "{\"r\": 0, \"target_modules\": [\"q_proj\"]}", "r must be" },
        { "{\"r\": 8, \"target_modules\": [\"q_prod\"]}", "q_prod" },
        { "{\"r\": 8, \"target_modules\": [\"_proj\"]}", "there is no layer \"_proj\"" },
        { "{\"r\": 8, \"target_modules\": []}", "at least one layer" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"modules_to_save\": [\"\"]}",
          "modules_to_save: there is no layer \"\"" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"modules_to_save\": "
          "[\"layers.0.mlp.up_proj\"]}",
          "there is no layer \"layers.0.mlp.up_proj\"" },
        { "{\"r\": 8, \"target_modules\": \".*q_pro\"}",
          "target_modules: the pattern matches no layer; whole names, such as "
          "model.layers.0.self_attn.q_proj, are compared with it, and the ends of names "
          "with a list, such as q_proj" },
        { "{\"r\": 8, \"target_modules\": \"layers.*q_proj\"}", "matches no layer" },
        { "{\"r\": 8, \"target_modules\": \"(q_proj\"}",
          "target_modules: cannot compile" },
        { "{\"r\": 8, \"target_modules\": \"model.layers.0.*q_proj\"}",
          "the adapter is on q_proj in 1 of 2 layers" },
        { "{\"r\": 8, \"target_modules\": [\"model.layers.1.self_attn.v_proj\"]}",
          "the adapter is on v_proj in 1 of 2 layers" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"layers_to_transform\": 1}",
          "the adapter is on q_proj in 1 of 2 layers" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\", \"embed_tokens\"]}",
          "an adapter on model.embed_tokens is not supported" },
        { "{\"r\": 8, \"target_modules\": [\"lm_head\"]}",
          "an adapter on lm_head is not supported" },
        { "{\"r\": 8, \"target_modules\": [\"input_layernorm\"]}", "not a linear layer" },
        { "{\"r\": 8, \"target_modules\": [1]}", "list of names" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"use_dora\": 2}", "use_dora" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"bias\": \"all\"}", "bias" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"peft_type\": \"IA3\"}", "IA3" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"lora_dropout\": 1}",
          "dropout" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\", \"k_proj\"], "
          "\"rank_pattern\": {\"k_proj\": 4}}",
          "rank_pattern gives model.layers.0.self_attn.k_proj 4 and other modules 8" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], "
          "\"alpha_pattern\": {\"layers.0.self_attn.q_proj\": 4}}",
          "alpha_pattern gives" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"init_lora_weights\": "
          "\"pissa_niter_16\"}",
          "init_lora_weights pissa_niter_16 is not supported: the adapter belongs to base "
          "weights" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"init_lora_weights\": "
          "\"olora\"}",
          "init_lora_weights olora is not supported: the adapter belongs to base "
          "weights" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"init_lora_weights\": "
          "\"new\"}",
          "init_lora_weights new is not supported" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"trainable_token_indices\": "
          "[3]}",
          "trainable_token_indices is not supported" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"layer_replication\": "
          "[[0, 1]]}",
          "layer_replication is not supported" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"alora_invocation_tokens\": "
          "[7]}",
          "alora_invocation_tokens is not supported" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"use_qalora\": true}",
          "use_qalora is not supported" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"lora_bias\": true}",
          "lora_bias is not supported" },
        { "{\"r\": 8, \"target_modules\": [\"q_proj\"], \"of_next_year\": 1}",
          "of_next_year is not supported" },
        { "{\"r\": \"8\", \"target_modules\": [\"q_proj\"]}", "r" },
        { "[]", "adapter_config.json" },
    };
    char *dir = unit_dir_new(), *name = path_join(dir, "adapter_config.json");
    struct lora lora;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        assert_true(file_replace(name, cases[i].text, strlen(cases[i].text), 0600, &err));
        assert_false(lora_config_read(dir, CONFIG("llama"), &lora, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].message))
            fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].message);
    }
    free(name);
    unit_dir_free(dir);
}

/* A matrix that threads divide, in both directions. */
static void test_singular_values_are_the_same_with_any_threads(void **state)
{
    enum { ROWS = 1500, COLS = 1100, COUNT = 2 };
    float *a = memory_alloc(sizeof(*a) * ROWS * COLS);
    struct singular all, one;
    cpu_set_t before, single;

    (void)state;
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        a[i] = (float)(cos((double)(i / COLS)) * sin((double)(i % COLS) * 0.1) +
                       0.1 * random_uniform(3, RANDOM_INIT, 0, i));
    all = singular_compute(a, ROWS, COLS, COUNT, SINGULAR_EXACT);
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&single);
    for (int i = 0; CPU_COUNT(&single) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &single);
    assert_int_equal(sched_setaffinity(0, sizeof(single), &single), 0);
    one = singular_compute(a, ROWS, COLS, COUNT, SINGULAR_EXACT);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_memory_equal(all.values, one.values, COUNT * sizeof(double));
    assert_memory_equal(all.left, one.left, COUNT * ROWS * sizeof(double));
    assert_memory_equal(all.right, one.right, COUNT * COLS * sizeof(double));
    singular_clear(&all);
    singular_clear(&one);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lora_reads_the_plan),
        cmocka_unit_test(test_lora_target_may_be_a_pattern),
        cmocka_unit_test(test_lora_patterns_name_encoders),
        cmocka_unit_test(test_lora_leaves_projectors_out),
        cmocka_unit_test(test_lora_skips_names_of_no_module),
        cmocka_unit_test(test_lora_writes_ties_that_peft_knows),
        cmocka_unit_test(test_lora_names_of_experts),
        cmocka_unit_test(test_lora_names_of_architectures),
        cmocka_unit_test(test_lora_leaves_out_what_peft_refuses),
        cmocka_unit_test(test_lora_saved_names_are_as_peft_reads_them),
        cmocka_unit_test(test_lora_reads_saved_names_as_peft),
        cmocka_unit_test(test_lora_config_round_trips),
        cmocka_unit_test(test_lora_config_reads_what_peft_writes),
        cmocka_unit_test(test_singular_values_and_vectors),
        cmocka_unit_test(test_singular_values_are_the_same_with_any_threads),
        cmocka_unit_test(test_lora_config_rejects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
