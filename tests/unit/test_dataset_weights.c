/* tests/unit/test_dataset_weights.c - loss_weight from the file to the gradient: loss and
 * norm match PyTorch's (tests/golden/weights.json, made by weights.py). */
#include "config.h"

#include "train/dataset/dataset.h"

#include "base/file.h"
#include "tests/unit/unit_model.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/chat/chat.h"
#include "train/tokenizer/tokenizer.h"

static void write_records(const char *dir, const json_t *records)
{
    struct text text;
    json_t *record;
    size_t i;

    text_init(&text, 0);
    json_array_foreach(records, i, record)
    {
        json_write(record, &text);
        text_addc(&text, '\n');
    }
    unit_write(dir, "records.jsonl", &text);
    text_clear(&text);
}

static struct dataset *open_records(const char *dir, const struct tokenizer *tokenizer,
                                    enum choice packing)
{
    const struct plan plan = { .stage = STAGE_SFT,
                               .dataset = "records.jsonl",
                               .dataset_dir = dir,
                               .template_name = "default",
                               .packing = packing,
                               .cutoff_len = 512,
                               .disable_shuffling = true,
                               .data_seed = -1 };
    struct error err = { 0 };
    struct dataset *dataset = dataset_open(&plan, SPLIT_TRAIN, tokenizer, &err);

    unit_must(dataset != NULL, &err);
    return dataset;
}

/* The weighted mean, and its gradients. */
static double train(struct unit_model *u, const struct batch *batch)
{
    struct step_scalars numbers = unit_numbers(u, 1, 1);
    struct error err = { 0 };
    double sum = 0;

    numbers.grad_scale = (float)(1 / batch->weight);
    model_begin(u->model, &numbers);
    unit_must(model_train(u->model, batch, 0, &err), &err);
    unit_must(model_end(u->model, &numbers, &sum, &err), &err);
    return sum / batch->weight;
}

static void test_dataset_weights_match_pytorch(void **state)
{
    struct unit_model u = unit_model_shared("data/stories260K/hf");
    char *name = unit_source("tests/golden/weights.json"), *dir = unit_dir_new();
    struct error err = { 0 };
    json_t *golden = json_read_file(name, 1 << 20, &err);
    struct tokenizer *tokenizer = chat_tokenizer_open(u.plan.model_name_or_path, &err);
    struct batch batch = { 0 };

    (void)state;
    unit_must(golden != NULL && tokenizer != NULL, &err);
    write_records(dir, json_object_get(golden, "records"));
    unit_model_start(&u, 512, 2, 1);
    for (enum choice packing = CHOICE_NO; packing <= CHOICE_YES; packing++) {
        struct dataset *dataset = open_records(dir, tokenizer, packing);
        double loss, expected = json_real_value(json_object_get(golden, "loss"));

        assert_true(dataset_batch(dataset, 0, 0, 2, &batch));
        assert_int_equal(batch.sequences, 2);
        unit_assert_near("weight", batch.weight,
                         json_real_value(json_object_get(golden, "weight")), 1e-12);
        loss = train(&u, &batch);
        unit_assert_near("loss", loss, expected, 1e-5);
        unit_assert_near("norm", unit_norm(&u),
                         json_real_value(json_object_get(golden, "grad_norm")), 1e-4);
        dataset_close(dataset);
    }
    batch_clear(&batch);
    unit_model_stop(&u);
    tokenizer_close(tokenizer);
    json_decref(golden);
    unit_dir_free(dir);
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        test_dataset_weights_match_pytorch) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
