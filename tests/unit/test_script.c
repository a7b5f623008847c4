/* tests/unit/test_script.c - scripts as documents: which value an argument has, and where
 * it is written. */
#include "config.h"

#include "patcher/script/script.h"

#include "tests/unit/unit.h"

struct reading {
    struct arena *arena;
    struct document document;
};

static struct reading read_on(const char *device, const char *text)
{
    struct reading reading = { .arena = arena_new() };
    struct device found;
    struct script_source source = { .name = "train.py" };
    struct error err = { 0 };

    if (device) {
        assert_true(device_find(device, &found, &err));
        source.device = &found;
    }
    script_read(&source, text, strlen(text), reading.arena, &reading.document);
    return reading;
}

static void require_parser(void)
{
    if (!script_supported())
        skip();
}

/* Check the value of a key; NULL: the script says nothing about it. */
static void expect(const char *device, const char *text, const char *key,
                   const char *value)
{
    struct reading reading = read_on(device, text);
    const struct entry *entry =
        reading.document.root ? document_find(&reading.document, key) : NULL;

    if (value) {
        assert_non_null(entry);
        assert_string_equal(entry->value->text, value);
    } else {
        assert_null(entry);
    }
    arena_free(reading.arena);
}

#define ARGS "from transformers import TrainingArguments as TA\nimport torch\n"

static void test_script_values_of_literals(void **state)
{
    (void)state;
    require_parser();
    expect(NULL, ARGS "TA('o', fp16=True)", "fp16", "true");
    expect(NULL, ARGS "TA('o', learning_rate=2e-5)", "learning_rate", "2.0e-05");
    expect(NULL, ARGS "TA('o', max_steps=1_000)", "max_steps", "1000");
    expect(NULL, ARGS "TA('o', max_grad_norm=None)", "max_grad_norm", "null");
    expect(NULL, ARGS "TA('o', max_grad_norm=-1)", "max_grad_norm", "-1");
    expect(NULL, ARGS "TA('o', run_name=f'a{b}')", "run_name", NULL);
    expect(NULL, ARGS "TA(output_dir='a/b')", "output_dir", "a/b");
}

static void test_script_names_follow_assignments(void **state)
{
    (void)state;
    require_parser();
    expect(NULL, ARGS "x = True\nTA('o', fp16=x)", "fp16", "true");
    expect(NULL, ARGS "x = False\nx = True\nTA('o', fp16=x)\nx = False", "fp16", "true");
    expect(NULL, ARGS "for x in y:\n  TA('o', tf32=x)", "tf32", NULL);
    expect(NULL, ARGS "def f(x=True):\n  TA('o', fp16=x)", "fp16", "true");
    expect(NULL, ARGS "def f(x):\n  TA('o', tf32=x)\nf(True)", "tf32", "true");
    expect(NULL, ARGS "def f(x):\n  TA('o', tf32=x)\nf(True)\nf(False)", "tf32", NULL);
    expect(NULL, ARGS "class C:\n  half = True\nTA('o', fp16=C.half)", "fp16", "true");
    expect(NULL, ARGS "d = {'fp16': True}\nd['tf32'] = False\nTA(**d)", "tf32", "false");
    expect(NULL, ARGS "d = dict(fp16=True)\nTA('o', **{**d, 'fp16': False})", "fp16",
           "false");
    expect(NULL, ARGS "if unknown():\n  x = 1\nelse:\n  x = 2\nTA('o', seed=x)", "seed",
           NULL);
}

static void test_script_evaluates_for_the_device(void **state)
{
    const char *probe = ARGS "TA('o', bf16=torch.cuda.is_bf16_supported())";
    const char *strict =
        ARGS "TA('o', bf16=torch.cuda.is_bf16_supported(including_emulation=False))";
    const char *capability =
        ARGS "major, _ = torch.cuda.get_device_capability()\nTA('o', bf16=major >= 8)";

    (void)state;
    require_parser();
    expect("T4", probe, "bf16", "true"); /* torch counts emulation */
    expect("T4", strict, "bf16", "false");
    expect("A100", strict, "bf16", "true");
    expect("T4", capability, "bf16", "false");
    expect("A100", capability, "bf16", "true");
    expect("cpu", ARGS "TA('o', fp16=torch.cuda.is_available())", "fp16", "false");
    expect(NULL, probe, "bf16", "auto");
}

static void test_script_positions_are_of_the_arguments(void **state)
{
    const char *text = ARGS "TA('\xc3\xa9',\n   fp16=True)";
    struct reading reading;
    const struct entry *entry;

    (void)state;
    require_parser();
    reading = read_on(NULL, text);
    entry = document_find(&reading.document, "fp16");
    assert_non_null(entry);
    assert_int_equal(entry->key->at.line, 4);
    assert_int_equal(entry->key->at.column, 4);
    assert_int_equal(entry->value->at.column, 9);
    assert_memory_equal(text + entry->value->at.byte, "True", entry->value->bytes);
    arena_free(reading.arena);
}

static void test_script_refuses_other_text(void **state)
{
    static const char *const texts[] = { "", "def f(:\n", "x = 1\n", "\xff",
                                         "a\n  b\n c" };

    (void)state;
    require_parser();
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct reading reading = read_on(NULL, texts[i]);

        assert_null(reading.document.root);
        assert_int_equal(reading.document.remark_count, 1);
        arena_free(reading.arena);
    }
}

static void test_script_names(void **state)
{
    (void)state;
    assert_true(script_is_name("a/train.py"));
    assert_true(script_is_name("book.ipynb"));
    assert_false(script_is_name(".py"));
    assert_false(script_is_name("train.py.yaml"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_script_values_of_literals),
        cmocka_unit_test(test_script_names_follow_assignments),
        cmocka_unit_test(test_script_evaluates_for_the_device),
        cmocka_unit_test(test_script_positions_are_of_the_arguments),
        cmocka_unit_test(test_script_refuses_other_text),
        cmocka_unit_test(test_script_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
