/* tests/unit/test_encoder_adapters.c - names of layers of an encoder that have adapters. */
#include "config.h"

#include "train/model/encoder_adapters.h"

#include "tests/unit/unit.h"
#include "base/size.h"
#include "train/text/pattern.h"

static const struct encoder_tensor tensors[] = {
    { .name = "visual.patch_embed.proj.weight" },
    { .path = "model.visual.blocks.0.attn.qkv" },
    { .path = "model.visual.blocks.1.attn.qkv" },
    { .path = "model.visual.blocks.12.attn.qkv" },
    { .path = "model.visual.blocks.0.attn.proj" },
    { .path = "model.visual.blocks.1.attn.proj" },
    { .path = "model.visual.deepstack_merger_list.0.linear_fc1" },
};
static const struct encoder_list encoder = { .list = tensors,
                                             .count = TS_COUNT(tensors),
                                             .blocks = "model.visual.blocks.",
                                             .run = 13 };

static void expect(const struct lora *lora, const char *marks)
{
    size_t count = 0;

    for (size_t i = 0; i < encoder.count; i++) {
        assert_int_equal(lora->encoder[i], marks[i] == 'x');
        count += marks[i] == 'x';
    }
    assert_int_equal(lora->encoder_count, count);
}

/* LLaMA-Factory compares parts of names, PEFT the last ones. */
static void test_encoder_adapters_mark_parts_of_names(void **state)
{
    static const struct {
        const char *names, *marks;
    } cases[] = {
        { "q_proj,v_proj", "-------" },   { "proj", "----xx-" },
        { "qkv, linear_fc1", "-xxx--x" }, { "blocks.1", "--xx-x-" },
        { "qkv,qkv", "-xxx---" },         { "", "-------" },
        { " , attn.proj ,", "----xx-" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct lora lora = { 0 };

        encoder_adapters_mark(&encoder, cases[i].names, &lora);
        expect(&lora, cases[i].marks);
    }
}

static void test_encoder_adapters_leave_out_what_is_no_linear_layer(void **state)
{
    struct lora lora = { 0 };

    (void)state;
    encoder_adapters_all(&encoder, &lora);
    expect(&lora, "-xxxxxx");
    encoder_adapters_add(LORA_ENCODER_MAX, &lora);
    expect(&lora, "-xxxxxx");
    encoder_adapters_clear(&lora);
    expect(&lora, "-------");
}

/* It matches the whole paths of these layers, and no others. */
static void test_encoder_adapters_have_a_pattern(void **state)
{
    static const char expected[] =
        "|model\\.visual\\.blocks\\.(?:1|12)\\.attn\\.qkv"
        "|model\\.visual\\.blocks\\.(?:0|1)\\.attn\\.proj"
        "|model\\.visual\\.deepstack_merger_list\\.(?:0)\\.linear_fc1";
    struct lora lora = { 0 };
    struct error err = { 0 };
    struct pattern *pattern;
    struct text out;

    (void)state;
    encoder_adapters_all(&encoder, &lora);
    lora.encoder[1] = false;
    text_init(&out, 0);
    encoder_adapters_pattern(&encoder, &lora, "|", &out);
    assert_string_equal(out.data, expected);
    pattern = pattern_compile_whole(out.data + 1, "target_modules", &err);
    assert_non_null(pattern);
    for (size_t i = 0; i < encoder.count; i++)
        if (tensors[i].path)
            assert_int_equal(pattern_matches(pattern, tensors[i].path, NULL),
                             lora.encoder[i]);
    assert_false(pattern_matches(pattern, "model.visual.blocks.2.attn.qkv", NULL));
    pattern_free(pattern);
    text_clear(&out);
}

static void test_encoder_adapters_know_layers_that_are_not_read(void **state)
{
    static const struct {
        const char *name;
        bool has, unread;
    } cases[] = {
        { "base_model.model.model.visual.blocks.12.attn.qkv.lora_A.weight", true, false },
        { "base_model.model.model.visual.blocks.13.attn.qkv.lora_A.weight", true, true },
        { "model.visual.blocks.13.attn.qkv.lora_A.weight", false, false },
        { "base_model.model.model.visual.blocks.x", false, false },
        { "base_model.model.model.layers.13.self_attn.q_proj.lora_A.weight", false,
          false },
        { "", false, false },
    };
    const struct encoder_list none = { 0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        assert_int_equal(encoder_adapters_has(&encoder, cases[i].name), cases[i].has);
        assert_int_equal(encoder_adapters_unread(&encoder, cases[i].name),
                         cases[i].unread);
        assert_false(encoder_adapters_unread(&none, cases[i].name));
    }
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_encoder_adapters_mark_parts_of_names),
        cmocka_unit_test(test_encoder_adapters_leave_out_what_is_no_linear_layer),
        cmocka_unit_test(test_encoder_adapters_have_a_pattern),
        cmocka_unit_test(test_encoder_adapters_know_layers_that_are_not_read),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
