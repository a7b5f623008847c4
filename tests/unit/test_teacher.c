/* tests/unit/test_teacher.c - comparison of the vocabularies of two models, read from
 * untrusted files. */
#include "config.h"

#include "patcher/rules/teacher.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "patcher/patcher.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

struct pair {
    char *dir, *student, *teacher;
    struct arena *arena;
};

static void set_up(struct pair *pair)
{
    pair->dir = unit_dir_new();
    pair->student = path_join(pair->dir, "student");
    pair->teacher = path_join(pair->dir, "teacher");
    pair->arena = arena_new();
    assert_int_equal(mkdir(pair->student, 0700), 0);
    assert_int_equal(mkdir(pair->teacher, 0700), 0);
}

static void tear_down(struct pair *pair)
{
    arena_free(pair->arena);
    free(pair->student);
    free(pair->teacher);
    unit_dir_free(pair->dir);
}

static void put(const char *dir, const char *name, const char *text)
{
    char *path = path_join(dir, name);

    assert_true(file_replace(path, text, strlen(text), 0600, NULL));
    free(path);
}

static struct teacher read_pair(const struct pair *pair)
{
    struct teacher teacher;

    teacher_read(&(struct plan) { .stage = STAGE_DISTILL,
                                  .model_name_or_path = pair->student,
                                  .kd.teacher = pair->teacher },
                 pair->arena, &teacher);
    return teacher;
}

/* The same tokens by id, whether they are in a map, in a list, or added. */
static void test_teacher_reads_all_forms_of_a_vocabulary(void **state)
{
    static const char *const forms[] = {
        "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2}}}",
        "{\"model\": {\"vocab\": [[\"a\", -1.5], [\"b\", -2], [\"c\", -3]]}}",
        "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1}}, \"added_tokens\": [{\"id\": 2, "
        "\"content\": \"c\"}, {\"id\": 0, \"content\": \"a\"}]}",
    };
    struct pair pair;

    (void)state;
    set_up(&pair);
    put(pair.student, "config.json", "{\"vocab_size\": 3}");
    put(pair.teacher, "config.json", "{\"vocab_size\": 3}");
    for (size_t i = 0; i < TS_COUNT(forms) * TS_COUNT(forms); i++) {
        put(pair.student, "tokenizer.json", forms[i / TS_COUNT(forms)]);
        put(pair.teacher, "tokenizer.json", forms[i % TS_COUNT(forms)]);
        assert_int_equal(read_pair(&pair).vocabularies, VOCABULARIES_SAME);
        assert_null(read_pair(&pair).difference);
    }
    put(pair.teacher, "tokenizer.json",
        "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 2, \"c\": 1}}}");
    assert_int_equal(read_pair(&pair).vocabularies, VOCABULARIES_DIFFER);
    assert_string_equal(read_pair(&pair).difference,
                        "'b' is token 1 of the student and 2 of the teacher");
    tear_down(&pair);
}

static void test_teacher_broken_folders_are_unknown(void **state)
{
    static const char *const texts[] = { "",
                                         "[",
                                         "7",
                                         "[1, {}]",
                                         "{\"vocab_size\": -3}",
                                         "{\"vocab_size\": \"a\", \"dtype\": 5}",
                                         "{\"model\": {\"vocab\": [1, [], [2]]}}",
                                         "{\"model\": 1, \"added_tokens\": {}}" };
    struct pair pair;
    char *path;

    (void)state;
    set_up(&pair);
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        put(pair.teacher, "config.json", texts[i]);
        put(pair.teacher, "tokenizer.json", texts[i]);
        put(pair.teacher, "model.safetensors", texts[i]);
        put(pair.student, "tokenizer.json", texts[(i + 1) % TS_COUNT(texts)]);
        assert_int_equal(read_pair(&pair).vocabularies, VOCABULARIES_UNKNOWN);
        assert_int_equal(read_pair(&pair).format, FORMAT_COUNT);
        assert_int_equal(read_pair(&pair).bytes, 0);
    }
    path = path_join(pair.teacher, "tokenizer.json");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("tokenizer.json", path), 0); /* to itself */
    assert_int_equal(read_pair(&pair).vocabularies, VOCABULARIES_UNKNOWN);
    free(path);
    tear_down(&pair);
}

static enum vocabularies compare(const char *student, const char *teacher)
{
    char *a = unit_shared(student), *b = unit_shared(teacher);
    struct arena *arena = arena_new();
    struct teacher out = { .vocabularies = VOCABULARIES_UNKNOWN };

    if (a && b)
        teacher_read(&(struct plan) { .stage = STAGE_DISTILL,
                                      .model_name_or_path = a,
                                      .kd.teacher = b },
                     arena, &out);
    free(a);
    free(b);
    arena_free(arena);
    return out.vocabularies;
}

static void test_teacher_distinguishes_real_tokenizers(void **state)
{
    char *there = unit_shared("data/tokenizers/smollm2");

    (void)state;
    if (!there) {
        print_message("# SKIP no data/tokenizers\n");
        skip();
    }
    free(there);
    assert_int_equal(compare("data/tokenizers/llama3", "data/tokenizers/qwen2.5"),
                     VOCABULARIES_DIFFER);
    assert_int_equal(compare("data/tokenizers/smollm2", "data/tokenizers/smollm-padded"),
                     VOCABULARIES_DIFFER);
    assert_int_equal(compare("data/stories260K/hf", "data/stories260K/hf"),
                     VOCABULARIES_SAME);
    assert_int_not_equal(compare("data/tokenizers/gpt2", "data/tokenizers/gpt2"),
                         VOCABULARIES_DIFFER);
}

/* The plan's memory includes the teacher's bytes. */
static void test_teacher_counts_in_memory(void **state)
{
    char *model = unit_shared("data/stories260K/hf");
    uint64_t weights[2];
    struct device device;

    (void)state;
    if (!model) {
        print_message("# SKIP no data/stories260K\n");
        skip();
    }
    assert_true(device_find("T4", &device, NULL));
    for (int i = 0; i < 2; i++) {
        struct patch_options how = { .job = "job.yaml", .device = &device };
        struct patch patch;
        struct text text;

        text_init(&text, 0);
        text_addf(&text, "model_name_or_path: %s\ndataset: a.txt\nstage: distill\n",
                  model);
        if (i == 1)
            text_addf(&text, "teacher_model_name_or_path: %s\n", model);
        assert_true(patcher_check(text.data, text.len, &how, &patch, NULL));
        weights[i] = patch.plan.memory.weights;
        assert_int_equal(weights[i] + patch.plan.memory.gradients +
                             patch.plan.memory.optimizer + patch.plan.memory.activations +
                             patch.plan.memory.workspace,
                         patch.plan.memory.total);
        if (i == 1)
            assert_int_equal(weights[1] - weights[0], patch.plan.teacher_bytes);
        patch_clear(&patch);
        text_clear(&text);
    }
    assert_true(weights[1] > weights[0]);
    free(model);
}

/* The folder from which the reference of preference training is read, and its name in
 * messages. */
static void test_teacher_may_be_a_reference(void **state)
{
    static const struct {
        enum preference_loss loss;
        enum method method;
        bool named, scratch, external;
        enum ref_model reference;
        const char *folder;
    } cases[] = {
        { PREFERENCE_SIGMOID, METHOD_LORA, false, false, false, REF_MODEL_BASE, NULL },
        { PREFERENCE_SIGMOID, METHOD_LORA, true, false, false, REF_MODEL_FOLDER, "r" },
        { PREFERENCE_SIGMOID, METHOD_LORA, true, false, true, REF_MODEL_FOLDER, NULL },
        { PREFERENCE_HINGE, METHOD_FULL, false, false, false, REF_MODEL_COPY, "m" },
        { PREFERENCE_HINGE, METHOD_FULL, false, true, false, REF_MODEL_COPY, NULL },
        { PREFERENCE_IPO, METHOD_FREEZE, false, false, false, REF_MODEL_COPY, "m" },
        { PREFERENCE_IPO, METHOD_FULL, true, true, false, REF_MODEL_FOLDER, "r" },
        { PREFERENCE_ORPO, METHOD_FULL, true, false, false, REF_MODEL_NONE, NULL },
        { PREFERENCE_SIMPO, METHOD_LORA, false, false, false, REF_MODEL_NONE, NULL },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct plan plan = {
            .stage = STAGE_DPO,
            .method = cases[i].method,
            .model_name_or_path = "m",
            .train_from_scratch = cases[i].scratch,
            .external = cases[i].external,
            .preference = { .loss = cases[i].loss,
                            .reference = cases[i].named ? "r" : NULL,
                            .adapter = "a" },
        };
        const char *folder = teacher_folder(&plan), *adapter = teacher_adapter(&plan);

        assert_int_equal(ref_model_of(&plan), cases[i].reference);
        assert_int_equal(folder != NULL, cases[i].folder != NULL);
        if (folder)
            assert_string_equal(folder, cases[i].folder);
        assert_int_equal(adapter != NULL, folder && cases[i].named);
    }
    assert_int_equal(ref_model_of(&(struct plan) { .stage = STAGE_SFT }), REF_MODEL_NONE);
    assert_null(teacher_folder(&(struct plan) { .model_name_or_path = "m" }));
}

static void test_teacher_of_pairs_is_called_reference(void **state)
{
    struct pair pair;
    struct teacher teacher;
    struct plan plan;

    (void)state;
    set_up(&pair);
    put(pair.student, "config.json", "{\"vocab_size\": 3}");
    put(pair.teacher, "config.json", "{\"vocab_size\": 4}");
    plan = (struct plan) { .stage = STAGE_DPO,
                           .model_name_or_path = pair.student,
                           .preference.reference = pair.teacher };
    teacher_read(&plan, pair.arena, &teacher);
    assert_int_equal(teacher.vocabularies, VOCABULARIES_DIFFER);
    assert_string_equal(teacher.difference,
                        "vocab_size is 3 in the model and 4 in the reference");
    assert_string_equal(teacher.names->key, "ref_model");
    plan.stage = STAGE_SFT;
    teacher_read(&plan, pair.arena, &teacher);
    assert_null(teacher.names);
    assert_null(teacher.path);
    tear_down(&pair);
}

/* If both do not fit at once, but one after the other would, the finding says so. */
static void test_teacher_may_run_before_its_student(void **state)
{
    char *model = unit_shared("data/stories260K/hf");
    struct device device;

    (void)state;
    if (!model) {
        print_message("# SKIP no data/stories260K\n");
        skip();
    }
    assert_true(device_find("cpu", &device, NULL));
    device.memory = device.available = (uint64_t)1 << 30;
    for (int i = 0; i < 2; i++) { /* with memory for one of them, and for none */
        struct patch_options how = { .job = "job.yaml", .device = &device };
        const char *note = NULL;
        struct patch patch;
        struct text text;

        text_init(&text, 0);
        text_addf(
            &text,
            "model_name_or_path: %s\nteacher_model_name_or_path: %s\n"
            "dataset: a.txt\nstage: distill\nfinetuning_type: full\n"
            "cutoff_len: 128\nper_device_train_batch_size: 1\nmemory_limit: %dMiB\n",
            model, model, i == 0 ? 7 : 4);
        assert_true(patcher_check(text.data, text.len, &how, &patch, NULL));
        for (size_t k = 0; k < patch.findings.count; k++)
            if (strcmp(patch.findings.list[k].rule, "TS301") == 0)
                note = patch.findings.list[k].note;
        assert_non_null(note);
        assert_int_equal(strstr(note, "teacher_logits") != NULL, i == 0);
        patch_clear(&patch);
        text_clear(&text);
    }
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_teacher_reads_all_forms_of_a_vocabulary),
        cmocka_unit_test(test_teacher_broken_folders_are_unknown),
        cmocka_unit_test(test_teacher_distinguishes_real_tokenizers),
        cmocka_unit_test(test_teacher_counts_in_memory),
        cmocka_unit_test(test_teacher_may_be_a_reference),
        cmocka_unit_test(test_teacher_of_pairs_is_called_reference),
        cmocka_unit_test(test_teacher_may_run_before_its_student),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
