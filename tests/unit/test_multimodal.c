/* tests/unit/test_multimodal.c - folders of models with towers: their config.json, the names
 * of tensors in files and adapters, and what is saved.  test_architectures.c compares the
 * values with transformers'. */
#include "config.h"

#include "train/model/multimodal.h"

#include "tests/unit/unit_architectures.h"
#include "train/model/adapter_check.h"
#include "train/model/lora_config.h"
#include "train/model/weights.h"

static bool parse(const char *text, struct arena *arena, struct model_config *out,
                  struct error *err)
{
    return model_config_parse(text, strlen(text), "config.json", arena, out, err);
}

/* The config.json of published models, without the settings of their towers. */
static void test_multimodal_reads_published_configs(void **state)
{
    static const struct {
        const char *text, *architecture;
        size_t vocabulary, hidden, intermediate, layers, heads, kv_heads, head;
        bool tied;
        double theta;
    } cases[] = {
        { "{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 2560, "
          "\"intermediate_size\": 10240, \"model_type\": \"gemma3_text\", "
          "\"num_hidden_layers\": 34, \"rope_scaling\": {\"factor\": 8.0, "
          "\"rope_type\": \"linear\"}, \"sliding_window\": 1024}, \"torch_dtype\": "
          "\"bfloat16\"}",
          "gemma3_text", 262208, 2560, 10240, 34, 8, 4, 256, true, 1e6 },
        { "{\"model_type\": \"llava\", \"text_config\": {\"max_position_embeddings\": "
          "4096, \"model_type\": \"llama\", \"rms_norm_eps\": 1e-05, \"torch_dtype\": "
          "\"float16\", \"vocab_size\": 32064}, \"tie_word_embeddings\": false, "
          "\"torch_dtype\": \"float16\"}",
          "llama", 32064, 4096, 11008, 32, 32, 32, 128, false, 1e4 },
        { "{\"model_type\": \"mistral3\", \"text_config\": {\"head_dim\": 128, "
          "\"hidden_act\": \"silu\", \"hidden_size\": 5120, \"intermediate_size\": 32768, "
          "\"max_position_embeddings\": 131072, \"model_type\": \"mistral\", "
          "\"num_attention_heads\": 32, \"num_hidden_layers\": 40, "
          "\"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-05, \"rope_theta\": "
          "1000000000.0, \"sliding_window\": null, \"vocab_size\": 131072}, "
          "\"torch_dtype\": \"bfloat16\"}",
          "mistral", 131072, 5120, 32768, 40, 32, 8, 128, false, 1e9 },
        { "{\"model_type\": \"qwen2_vl\", \"hidden_act\": \"silu\", \"hidden_size\": 1536, "
          "\"intermediate_size\": 8960, \"max_window_layers\": 28, "
          "\"num_attention_heads\": 12, \"num_hidden_layers\": 28, "
          "\"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-06, \"rope_theta\": "
          "1000000.0, \"sliding_window\": 32768, \"tie_word_embeddings\": true, "
          "\"torch_dtype\": \"bfloat16\", \"use_sliding_window\": false, "
          "\"vision_config\": {\"hidden_size\": 1536}, \"rope_scaling\": {\"type\": "
          "\"mrope\", \"mrope_section\": [16, 24, 24]}, \"vocab_size\": 151936}",
          "qwen2", 151936, 1536, 8960, 28, 12, 2, 128, true, 1e6 },
        { "{\"model_type\": \"qwen3_vl\", \"text_config\": {\"attention_bias\": false, "
          "\"dtype\": \"bfloat16\", \"head_dim\": 128, \"hidden_size\": 2560, "
          "\"intermediate_size\": 9728, \"model_type\": \"qwen3_vl_text\", "
          "\"num_attention_heads\": 32, \"num_hidden_layers\": 36, "
          "\"num_key_value_heads\": 8, \"rope_scaling\": {\"mrope_interleaved\": true, "
          "\"mrope_section\": [24, 20, 20], \"rope_type\": \"default\"}, \"rope_theta\": "
          "5000000, \"vocab_size\": 151936}, \"tie_word_embeddings\": true}",
          "qwen3", 151936, 2560, 9728, 36, 32, 8, 128, true, 5e6 },
        /* saved by transformers 5, where the value of the whole model counts */
        { "{\"model_type\": \"internvl\", \"text_config\": {\"hidden_size\": 896, "
          "\"intermediate_size\": 4864, \"model_type\": \"qwen2\", "
          "\"num_attention_heads\": 14, \"num_hidden_layers\": 24, "
          "\"num_key_value_heads\": 2, \"rope_theta\": 1000000.0, "
          "\"tie_word_embeddings\": false, \"vocab_size\": 151674}, "
          "\"tie_word_embeddings\": true, \"dtype\": \"bfloat16\"}",
          "qwen2", 151674, 896, 4864, 24, 14, 2, 64, true, 1e6 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct arena *arena = arena_new();
        struct model_config c;
        struct error err = { 0 };

        unit_must(parse(cases[i].text, arena, &c, &err), &err);
        assert_string_equal(c.architecture->model_type, cases[i].architecture);
        assert_string_equal(c.architecture->blocks, "model.language_model.layers.");
        assert_int_equal(c.vocab_size, cases[i].vocabulary);
        assert_int_equal(c.hidden_size, cases[i].hidden);
        assert_int_equal(c.intermediate_size, cases[i].intermediate);
        assert_int_equal(c.layers, cases[i].layers);
        assert_int_equal(c.heads, cases[i].heads);
        assert_int_equal(c.kv_heads, cases[i].kv_heads);
        assert_int_equal(c.head_size, cases[i].head);
        assert_true(c.tied == cases[i].tied);
        assert_true(c.rope.theta == cases[i].theta);
        assert_int_equal(c.dtype, i == 1 ? FORMAT_FP16 : FORMAT_BF16);
        arena_free(arena);
    }
}

/* Ministral 3 scales queries after its original positions. */
static void test_multimodal_reads_scales_of_ministral3(void **state)
{
    static const char text[] =
        "{\"model_type\": \"mistral3\", \"text_config\": {\"model_type\": "
        "\"ministral3\", \"rope_parameters\": {\"beta_fast\": 32.0, \"beta_slow\": 1.0, "
        "\"factor\": 16.0, \"llama_4_scaling_beta\": %s, \"mscale\": 1.0, "
        "\"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 16384, "
        "\"rope_theta\": 1000000.0, \"rope_type\": \"yarn\", \"type\": \"yarn\"}}}";
    struct arena *arena = arena_new();
    struct model_config c;
    struct error err = { 0 };

    (void)state;
    unit_must(parse(arena_printf(arena, text, "0"), arena, &c, &err), &err);
    assert_true(c.query_scaling.beta == 0);
    unit_must(parse(arena_printf(arena, text, "0.1"), arena, &c, &err), &err);
    assert_true(c.query_scaling.beta == 0.1 && c.query_scaling.interval == 16384);
    assert_true(model_config_check_positions(&c, 16385, &err));
    assert_int_equal(model_config_positions(&c), 262144);
    err = (struct error) { 0 };
    assert_false(
        parse("{\"model_type\": \"ministral3\", \"vocab_size\": 8, \"hidden_size\": "
              "16, \"intermediate_size\": 16, \"num_hidden_layers\": 1, "
              "\"num_attention_heads\": 2}",
              arena, &c, &err));
    assert_string_equal(err.text, "config.json: rope_parameters is missing");
    arena_free(arena);
}

/* Queries of layers that do not rotate are scaled; the others attend in chunks. */
static void test_multimodal_reads_chunks_and_scales_of_llama4(void **state)
{
    static const char text[] = "{\"model_type\": \"llama4\", \"text_config\": {%s}}";
    static const struct {
        const char *keys;
        size_t chunk;
        double beta, interval;
    } cases[] = {
        { "\"attn_temperature_tuning\": 4, \"no_rope_layers\": []", 8192, 0.1, 8192 },
        { "\"attention_chunk_size\": 4096, \"attn_scale\": 0.2", 4096, 0.2, 8192 },
        { "\"floor_scale\": 2048", 8192, 0.1, 2048 },
        { "\"attn_temperature_tuning\": false", 8192, 0, 0 },
        { "\"attention_chunk_size\": null, \"no_rope_layer_interval\": 100", 0, 0, 0 },
    };
    struct arena *arena = arena_new();
    struct model_config c;
    struct error err = { 0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        unit_must(parse(arena_printf(arena, text, cases[i].keys), arena, &c, &err), &err);
        assert_int_equal(c.attention_chunk, cases[i].chunk);
        assert_true(c.query_scaling.beta == cases[i].beta);
        assert_true(c.query_scaling.interval == cases[i].interval);
        assert_int_equal(model_config_positions(&c), 131072);
    }
    assert_false(
        parse(arena_printf(arena, text, "\"attention_chunk_size\": 0"), arena, &c, &err));
    assert_string_equal(err.text, "config.json: attention_chunk_size must be a number "
                                  "from 1 to 2147483647, not 0");
    arena_free(arena);
}

/* AutoConfig makes Ministral of a Mistral with layer_types, but not of a text_config. */
static void test_multimodal_windows_of_mistral_are_in_all_layers(void **state)
{
    static const char text[] =
        "{\"model_type\": \"llava_next\", \"text_config\": {\"model_type\": "
        "\"mistral\", \"num_hidden_layers\": 2, \"sliding_window\": 8, "
        "\"layer_types\": [\"full_attention\", \"sliding_attention\"]}}";
    struct arena *arena = arena_new();
    struct model_config c;
    struct error err = { 0 };

    (void)state;
    unit_must(parse(text, arena, &c, &err), &err);
    assert_int_equal(c.sliding_window, 8);
    assert_true(c.windowed[0] && c.windowed[1]);
    arena_free(arena);
}

static void test_multimodal_rejects_other_configs(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "{\"model_type\": \"gemma3\"}",
          "config.json: a model of type gemma3 must have a text_config" },
        { "{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"mamba\"}}",
          "model_type \"mamba\" is not supported; `man trainspool-job` lists" },
        { "{\"model_type\": \"fuyu\", \"text_config\": {}}",
          "model_type \"fuyu\" is not supported; `man trainspool-job` lists" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct arena *arena = arena_new();
        struct model_config c;
        struct error err = { 0 };

        assert_false(parse(cases[i].text, arena, &c, &err));
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s", err.text);
        arena_free(arena);
    }
}

/* ---- Files ---- */

static const char *const companions[] = { "preprocessor_config.json",
                                          "processor_config.json",
                                          "video_preprocessor_config.json",
                                          "chat_template.json" };

static char *folder_with_companions(const json_t *one)
{
    char *dir = folder_of(one, NULL);

    for (size_t i = 0; i < TS_COUNT(companions); i++)
        put_json(json_object_get(one, "config"), dir, companions[i]);
    return dir;
}

static void assert_same_file(const char *one, const char *other, const char *name)
{
    const char *const dirs[] = { one, other };
    struct text texts[2];

    for (size_t i = 0; i < 2; i++) {
        char *path = path_join(dirs[i], name);
        struct error err = { 0 };

        text_init(&texts[i], 0);
        unit_must(file_read(path, (size_t)1 << 20, &texts[i], NULL, &err), &err);
        free(path);
    }
    assert_int_equal(texts[0].len, texts[1].len);
    assert_memory_equal(texts[0].data, texts[1].data, texts[0].len);
    text_clear(&texts[0]);
    text_clear(&texts[1]);
}

/* What processors need is next to a model and next to an adapter; config.json is that of
 * the whole model. */
static void test_multimodal_saves_the_files_of_processors(void **state)
{
    static const enum method methods[] = { METHOD_FULL, METHOD_LORA };
    char *dir = folder_with_companions(find_case("models", "towers-gemma3"));

    (void)state;
    for (size_t i = 0; i < TS_COUNT(methods); i++) {
        struct unit_model u = open_folder(dir);
        char *saved = unit_dir_new();
        struct error err = { 0 };

        u.plan.method = methods[i];
        start(&u);
        unit_must(model_save(u.model, saved, &err), &err);
        for (size_t j = 0; j < TS_COUNT(companions); j++)
            assert_same_file(dir, saved, companions[j]);
        if (methods[i] == METHOD_FULL)
            assert_same_file(dir, saved, "config.json");
        unit_model_stop(&u);
        unit_dir_free(saved);
    }
    unit_dir_free(dir);
}

static bool read_bytes(const void *context, size_t index, void *to, struct error *err)
{
    const struct tensor_source *sources = context;
    size_t count = safetensors_dtype_bytes(sources[index].dtype);

    (void)err;
    for (size_t i = 0; i < sources[index].rank; i++)
        count *= sources[index].shape[i];
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)to)[i] = (unsigned char)(7 * i + index);
    return true;
}

/* Replace the file of a folder: the text model as it is, and a tower in other dtypes. */
static void put_other_tower(const char *dir)
{
    char *path = path_join(dir, "model.safetensors");
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(path, NULL, false, &err);
    size_t count = 0, stored = safetensors_count(set);
    struct tensor_source *sources = memory_alloc((stored + 2) * sizeof(*sources));
    struct text name;

    unit_must(set != NULL, &err);
    for (size_t i = 0; i < stored; i++) {
        const struct stored_tensor *t = safetensors_at(set, i);

        if (text_starts(t->name, "vision_tower."))
            continue;
        sources[count] = (struct tensor_source) { .name = t->name,
                                                  .dtype = t->dtype,
                                                  .rank = t->rank,
                                                  .read = read_bytes,
                                                  .context = sources,
                                                  .index = count };
        memcpy(sources[count].shape, t->shape, t->rank * sizeof(*t->shape));
        count++;
    }
    sources[count] = (struct tensor_source) {
        .name = "vision_tower.ids", .dtype = "I64", .rank = 2, .shape = { 1, 5 }
    };
    sources[count + 1] = (struct tensor_source) {
        .name = "vision_tower.weight", .dtype = "BF16", .rank = 3, .shape = { 3, 2, 7 }
    };
    for (size_t i = 0; i < 2; i++, count++) {
        sources[count].read = read_bytes;
        sources[count].context = sources;
        sources[count].index = count;
    }
    text_init(&name, 0);
    text_addf(&name, "%s.new", path);
    unit_must(safetensors_write(name.data, sources, count, &err), &err);
    safetensors_close(set);
    assert_int_equal(rename(name.data, path), 0);
    text_clear(&name);
    free(sources);
    free(path);
}

/* The tensors of towers keep their dtype and every byte, in a checkpoint and in an export
 * with a merged adapter. */
static void test_multimodal_keeps_the_bytes_of_towers(void **state)
{
    static const enum method methods[] = { METHOD_FULL, METHOD_FREEZE, METHOD_LORA };
    static const char *const names[] = { "vision_tower.ids", "vision_tower.weight" };
    char *dir = folder_of(find_case("models", "towers-llava"), NULL);

    (void)state;
    put_other_tower(dir);
    for (size_t i = 0; i < TS_COUNT(methods); i++) {
        struct unit_model u = open_folder(dir);
        char *saved = unit_dir_new();
        struct error err = { 0 };
        struct safetensors *old, *new;

        u.plan.method = methods[i];
        u.plan.freeze_trainable_layers = 1;
        start(&u);
        unit_must(methods[i] == METHOD_LORA ? model_export(u.model, saved, &err)
                                            : model_save(u.model, saved, &err),
                  &err);
        old = safetensors_open(dir, "model", false, &err);
        new = safetensors_open(saved, "model", false, &err);
        unit_must(old && new, &err);
        assert_int_equal(safetensors_count(old), safetensors_count(new));
        for (size_t j = 0; j < TS_COUNT(names); j++) {
            const struct stored_tensor *from = safetensors_find(old, names[j]);
            const struct stored_tensor *to = safetensors_find(new, names[j]);

            assert_non_null(to);
            assert_string_equal(from->dtype, to->dtype);
            assert_int_equal(from->rank, to->rank);
            assert_memory_equal(from->shape, to->shape, to->rank * sizeof(*to->shape));
            assert_memory_equal(from->data, to->data, to->bytes);
        }
        safetensors_close(old);
        safetensors_close(new);
        unit_model_stop(&u);
        unit_dir_free(saved);
    }
    unit_dir_free(dir);
}

/* Return a copy of a case with one more tensor. */
static json_t *with_tensor(const char *name, const char *tensor, size_t rows)
{
    json_t *copy = json_deep_copy(find_case("models", name));

    json_object_set_new(json_object_get(copy, "tensors"), tensor,
                        json_pack("[I, I]", (json_int_t)rows, (json_int_t)24));
    return copy;
}

static void check_not_loaded(const json_t *one, bool scratch, const char *says)
{
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    struct error err = { 0 };

    u.plan.train_from_scratch = scratch;
    unit_model_open_backend(&u, 1);
    unit_model_make(&u, batch.rows, batch.sequences);
    assert_false(model_load(u.model, &err));
    if (!strstr(err.text, says))
        fail_msg("%s", err.text);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

static void test_multimodal_rejects_files_that_would_lose_something(void **state)
{
    json_t *surplus = with_tensor("towers-mistral3", "language_model.model.extra", 3);
    json_t *head = with_tensor("towers-gemma3", "language_model.lm_head.weight", 40);

    (void)state;
    check_not_loaded(surplus, false,
                     "language_model.model.extra is not part of a mistral model");
    check_not_loaded(head, false,
                     "language_model.lm_head.weight differs from the embeddings, but "
                     "config.json says tie_word_embeddings");
    check_not_loaded(find_case("models", "towers-qwen3_vl"), true,
                     "train_from_scratch: qwen3_vl has towers");
    json_decref(surplus);
    json_decref(head);
}

/* Qwen 3.5's layers that predict further tokens are not trained, and stay in the folder. */
static void test_multimodal_keeps_layers_that_predict_further_tokens(void **state)
{
    json_t *one = with_tensor("towers-qwen3_5", "mtp.fc.weight", 3);
    char *dir = folder_of(one, NULL), *saved = unit_dir_new();
    struct unit_model u = open_folder(dir);
    struct safetensors *old, *new;
    struct error err = { 0 };

    (void)state;
    start(&u);
    unit_must(model_save(u.model, saved, &err), &err);
    old = safetensors_open(dir, "model", false, &err);
    new = safetensors_open(saved, "model", false, &err);
    unit_must(old && new, &err);
    assert_non_null(safetensors_find(new, "mtp.fc.weight"));
    assert_memory_equal(safetensors_find(new, "mtp.fc.weight")->data,
                        safetensors_find(old, "mtp.fc.weight")->data,
                        safetensors_find(old, "mtp.fc.weight")->bytes);
    safetensors_close(old);
    safetensors_close(new);
    unit_model_stop(&u);
    unit_dir_free(saved);
    unit_dir_free(dir);
    json_decref(one);
}

/* The published files of Phi-4-multimodal have adapters of the model's own on its matrices: a
 * saved model and an export have all names, and the adapters as they were. */
static void test_multimodal_keeps_adapters_of_the_models_own(void **state)
{
    static const enum method methods[] = { METHOD_FULL, METHOD_LORA };
    char *dir = folder_of(find_case("models", "towers-phi4mm"), NULL);
    struct error err = { 0 };
    struct safetensors *old = safetensors_open(dir, "model", false, &err);

    (void)state;
    unit_must(old != NULL, &err);
    for (size_t i = 0; i < TS_COUNT(methods); i++) {
        struct unit_model u = open_folder(dir);
        char *saved = unit_dir_new();
        struct safetensors *new;
        size_t kept = 0;

        u.plan.method = methods[i];
        start(&u);
        unit_must(methods[i] == METHOD_LORA ? model_export(u.model, saved, &err)
                                            : model_save(u.model, saved, &err),
                  &err);
        new = safetensors_open(saved, "model", false, &err);
        unit_must(new != NULL, &err);
        assert_int_equal(safetensors_count(new), safetensors_count(old));
        for (size_t k = 0; k < safetensors_count(old); k++) {
            const struct stored_tensor *t = safetensors_at(old, k);
            const struct stored_tensor *found = safetensors_find(new, t->name);

            if (!found)
                fail_msg("%s is not saved", t->name);
            if (!strstr(t->name, ".lora_"))
                continue;
            assert_memory_equal(found->data, t->data, t->bytes);
            kept++;
        }
        assert_int_equal(kept, 2 * 4 * 2 * 2);
        safetensors_close(new);
        unit_model_stop(&u);
        unit_dir_free(saved);
    }
    safetensors_close(old);
    unit_dir_free(dir);
}

/* The weights of a saved folder are found by their parameters, whatever names it has. */
static void test_multimodal_finds_saved_weights(void **state)
{
    static const char *const cases[] = { "towers-gemma3",  "towers-gemma3-new-names",
                                         "towers-mllama",  "towers-phi4_multimodal",
                                         "towers-phi4mm",  "towers-qwen2_vl",
                                         "towers-qwen3_vl" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *dir = folder_of(find_case("models", cases[i]), NULL), *saved;
        struct unit_model u = open_folder(dir);
        struct error err = { 0 };
        struct safetensors *set;

        saved = unit_dir_new();
        start(&u);
        unit_must(model_save(u.model, saved, &err), &err);
        set = safetensors_open(saved, "model", false, &err);
        for (size_t j = 0; j < model_parameters(u.model); j++) {
            const struct parameter *p = model_parameter(u.model, j);
            const struct stored_tensor *t = model_find_saved(u.model, set, p);

            assert_non_null(t);
            assert_memory_equal(t->data, p->weight.data, t->bytes);
        }
        safetensors_close(set);
        unit_model_stop(&u);
        unit_dir_free(saved);
        unit_dir_free(dir);
    }
}

/* ---- Adapters ---- */

/* Rename the tensors of an adapter and its targets as PEFT with transformers 4 did. */
static json_t *old_adapter(const json_t *one, const char *old)
{
    static const char now[] = "base_model.model.model.language_model.";
    json_t *copy = json_deep_copy(one), *tensors = json_object(), *list = json_array();
    json_t *shape;
    const char *name;

    json_object_foreach(json_object_get(copy, "tensors"), name, shape)
    {
        struct text text;

        assert_true(text_starts(name, now));
        text_init(&text, 0);
        text_addf(&text, "base_model.model.%s%s", old, name + strlen(now));
        json_object_set(tensors, text.data, shape);
        /* LLaMA-Factory lists whole names */
        json_array_append_new(
            list, json_stringn(text.data + strlen("base_model.model."),
                               (size_t)(strstr(text.data, ".lora_") - text.data) -
                                   strlen("base_model.model.")));
        text_clear(&text);
    }
    json_object_set_new(copy, "tensors", tensors);
    json_object_set_new(json_object_get(copy, "config"), "target_modules", list);
    return copy;
}

static void test_multimodal_reads_adapters_with_old_names(void **state)
{
    static const struct {
        const char *adapter, *model, *base;
    } cases[] = { { "towers-gemma3-lora", "towers-gemma3", "language_model.model." },
                  { "towers-qwen2_vl-lora", "towers-qwen2_vl", "model." } };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        json_t *one = old_adapter(find_case("adapters", cases[i].adapter), cases[i].base);
        char *dir = folder_of(find_case("models", cases[i].model), NULL);
        char *adapter = unit_dir_new();

        put_json(json_object_get(one, "config"), adapter, "adapter_config.json");
        put_tensors(one, adapter, "adapter_model.safetensors", NULL);
        for (int merged = 0; merged < 2; merged++) {
            struct unit_model u = open_folder(dir);
            struct error err = { 0 };
            json_t *shape;
            const char *name;

            unit_must(adapter_check(adapter, &u.config, &err), &err);
            u.plan.method = METHOD_LORA;
            u.plan.adapter_name_or_path = adapter;
            u.plan.create_new_adapter = merged;
            start(&u);
            assert_true(isfinite(unit_train(&u, &batch)));
            json_object_foreach(json_object_get(one, "tensors"), name, shape)
            {
                struct made made = { name, 2, 1, 0 };
                float first;
                bool found = merged;

                read_made(&made, 0, &first, &err);
                for (size_t j = 0; j < model_parameters(u.model); j++)
                    found |=
                        ((float *)model_parameter(u.model, j)->weight.data)[0] == first;
                assert_true(found);
            }
            unit_model_stop(&u);
        }
        unit_dir_free(adapter);
        unit_dir_free(dir);
        json_decref(one);
    }
}

/* A list of last parts of names would adapt layers of towers, too, in PEFT. */
static void test_multimodal_adapters_name_their_layers_in_full(void **state)
{
    static const char expected[] =
        "model\\.language_model\\.layers\\.\\d+\\.(?:self_attn\\.q_proj|"
        "self_attn\\.v_proj|mlp\\.down_proj)";
    static const char *const names[] = { "input_layernorm", "post_attention_layernorm",
                                         "model.language_model.norm", "lm_head" };
    char *dir = folder_of(find_case("models", "towers-mistral3"), NULL);
    struct unit_model u = open_folder(dir);
    char *saved = unit_dir_new(), *file = path_join(saved, "adapter_config.json");
    struct error err = { 0 };
    struct lora again;
    json_t *config, *saved_names;

    (void)state;
    u.plan.method = METHOD_LORA;
    u.plan.lora_target = "q_proj,v_proj,down_proj";
    u.plan.additional_target = "norm,lm_head"; /* all norms, as in PEFT */
    start(&u);
    unit_must(model_save(u.model, saved, &err), &err);
    config = json_read_file(file, (size_t)1 << 20, &err);
    unit_must(config != NULL, &err);
    assert_string_equal(json_string_value(json_object_get(config, "target_modules")),
                        expected);
    unit_must(lora_config_read(saved, &u.config, &again, &err), &err);
    assert_true(again.adapted[MODULE_Q] && again.adapted[MODULE_V] &&
                again.adapted[MODULE_DOWN] && !again.adapted[MODULE_K]);
    assert_true(again.saved[MODULE_NORM] && again.saved[MODULE_HEAD]);
    saved_names = json_object_get(config, "modules_to_save");
    assert_int_equal(json_array_size(saved_names), TS_COUNT(names));
    for (size_t i = 0; i < TS_COUNT(names); i++)
        assert_string_equal(json_string_value(json_array_get(saved_names, i)), names[i]);
    json_decref(config);
    free(file);
    unit_model_stop(&u);
    unit_dir_free(saved);
    unit_dir_free(dir);
}

/* Layers outside the 4 bits may be listed with any of their names. */
static void test_multimodal_skips_quantized_layers_by_any_name(void **state)
{
    static const char text[] =
        "{\"model_type\": \"llava\", \"text_config\": {}, \"quantization_config\": "
        "{\"load_in_4bit\": true, \"quant_method\": \"bitsandbytes\", "
        "\"bnb_4bit_quant_type\": \"nf4\", \"llm_int8_skip_modules\": [\"vision_tower\", "
        "\"language_model.model.layers.1.mlp\", "
        "\"model.language_model.layers.2.self_attn\"]}}";
    struct arena *arena = arena_new();
    struct model_config c;
    struct error err = { 0 };

    (void)state;
    unit_must(parse(text, arena, &c, &err), &err);
    assert_true(weights_skip_quantization(
        &c, "model.language_model.layers.1.mlp.up_proj.weight"));
    assert_true(weights_skip_quantization(
        &c, "model.language_model.layers.2.self_attn.q_proj.weight"));
    assert_false(weights_skip_quantization(
        &c, "model.language_model.layers.2.mlp.up_proj.weight"));
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multimodal_reads_published_configs),
        cmocka_unit_test(test_multimodal_reads_scales_of_ministral3),
        cmocka_unit_test(test_multimodal_reads_chunks_and_scales_of_llama4),
        cmocka_unit_test(test_multimodal_windows_of_mistral_are_in_all_layers),
        cmocka_unit_test(test_multimodal_rejects_other_configs),
        cmocka_unit_test(test_multimodal_saves_the_files_of_processors),
        cmocka_unit_test(test_multimodal_keeps_the_bytes_of_towers),
        cmocka_unit_test(test_multimodal_rejects_files_that_would_lose_something),
        cmocka_unit_test(test_multimodal_keeps_layers_that_predict_further_tokens),
        cmocka_unit_test(test_multimodal_keeps_adapters_of_the_models_own),
        cmocka_unit_test(test_multimodal_finds_saved_weights),
        cmocka_unit_test(test_multimodal_reads_adapters_with_old_names),
        cmocka_unit_test(test_multimodal_adapters_name_their_layers_in_full),
        cmocka_unit_test(test_multimodal_skips_quantized_layers_by_any_name),
    };

    return cmocka_run_group_tests(tests, architectures_setup_all, architectures_teardown);
}
