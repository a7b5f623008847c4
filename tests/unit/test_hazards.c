/*
 * tests/unit/test_hazards.c - job texts that could break an edit, one row each: the text,
 * and the text after a patch for a card without bf16.
 *
 * Hazards of the file, not of its text, are tested where files are written:
 *
 *   replaced while it is patched   test_patcher_never_overwrites_concurrent_changes
 *   killed while it is patched     test_patcher_killed_anywhere_leaves_a_whole_file
 *   read-only, a link, two names   test_patcher_does_not_change_links_and_read_only_files
 *   full disk                      test_patcher_keeps_the_file_on_a_full_disk
 *   folder read-only               test_patcher_reports_a_read_only_folder
 *   loop of links, FIFO, folder    test_jobfile_refuses_unreadable_files
 *   100,000 levels, 300,000 items  test_document_stops_at_its_limits
 */
#include "config.h"

#include "patcher/patcher.h"

#include "base/size.h"
#include "patcher/document/edits.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

struct hazard {
    const char *name, *text;
    const char *expected; /* NULL: the text stays unchanged */
    const char *rule;     /* another finding; NULL: none */
};

#define MADE "bf16: false\nfp16: true\n"

static const struct hazard hazards[] = {
    /* encodings and line ends */
    { "byte order mark", "\357\273\277bf16: true\n", "\357\273\277" MADE, "TS002" },
    { "CRLF", "bf16: true\r\nseed: 1\r\n", "bf16: false\r\nfp16: true\r\nseed: 1\r\n",
      "TS003" },
    { "mixed line ends", "seed: 1\r\nbf16: true\nstage: sft\r\n",
      "seed: 1\r\nbf16: false\nfp16: true\nstage: sft\r\n", "TS003" },
    { "bare CR", "bf16: true\rseed: 1\r", "bf16: false\rfp16: true\rseed: 1\r", NULL },
    { "CR before a comment", "seed: 1 # a\rbf16: true # b\r",
      "seed: 1 # a\rbf16: false # b\rfp16: true\r", NULL },
    { "NEL", "seed: 1 # a\302\205bf16: true\n", NULL, "TS102" },
    { "LS", "seed: 1 # a\342\200\250bf16: true\n", NULL, "TS102" },
    { "PS", "seed: 1 # a\342\200\251bf16: true\n", NULL, "TS102" },
    { "NEL in quotes", "run_name: \"a\302\205b\"\nbf16: true\n", NULL, NULL },
    { "no final newline", "seed: 1\nbf16: true", "seed: 1\n" MADE, NULL },
    { "invalid UTF-8", "run_name: caf\351\nbf16: true\n", NULL, "TS001" },
    { "tab in indentation", "trainspool:\n\tpolicy: sound\nbf16: true\n", NULL, "TS004" },
    { "tab before a value", "bf16:\ttrue\n", "bf16:\tfalse\nfp16: true\n", NULL },
    { "tab before a comment", "bf16: true\t# c\n", "bf16: false\t# c\nfp16: true\n",
      NULL },
    { "blank line with a tab", "bf16: true\n \t\nseed: 1\n",
      "bf16: false\nfp16: true\n \t\nseed: 1\n", NULL },
    /* keys */
    { "key twice", "bf16: true\nbf16: true\n", NULL, "TS005" },
    { "key twice, once quoted", "bf16: true\n\"bf16\": true\n", NULL, "TS005" },
    { "quoted key", "\"bf16\": true\n", "\"bf16\": false\nfp16: true\n", NULL },
    { "key in single quotes", "'bf16': true # c\n", "'bf16': false # c\nfp16: true\n",
      NULL },
    { "escaped key", "\"bf\\x316\": true\n", "\"bf\\x316\": false\nfp16: true\n", NULL },
    { "? key", "? bf16\n: true\n", NULL, "TS102" },
    { "? key without a value", "? seed\nbf16: true\n", "? seed\n" MADE, NULL },
    { "blanks before the colon", "bf16   : true\n", "bf16   : false\nfp16: true\n",
      NULL },
    { "key :value", "bf16 :true\n", NULL, "TS009" },
    { "key:value", "bf16:true\n", NULL, "TS009" },
    { "key within a longer one", "not_bf16: true\nbf16: true\nbf16_full_eval: false\n",
      "not_bf16: true\n" MADE "bf16_full_eval: false\n", NULL },
    /* anchors, merges, tags, documents */
    { "anchored value", "bf16: &b true\n", NULL, "TS007" },
    { "alias", "x: &b true\nbf16: *b\n", NULL, "TS007" },
    { "merge", "x: &b {bf16: true}\n<<: *b\n", NULL, "TS007" },
    { "merge, overridden after it", "x: &b {bf16: false}\n<<: *b\nbf16: true\n",
      "x: &b {bf16: false}\n<<: *b\n" MADE, NULL },
    { "merge, overridden before it", "x: &b {bf16: false}\nbf16: true\n<<: *b\n",
      "x: &b {bf16: false}\n" MADE "<<: *b\n", NULL },
    { "tag of a text", "bf16: !!str true\n", NULL, "TS704" },
    { "tag of a bool", "bf16: !!bool true\n", "bf16: false\nfp16: true\n", NULL },
    { "several documents", "bf16: true\n---\nbf16: true\n", NULL, "TS006" },
    { "end of the document", "bf16: true\n...\n", MADE "...\n", NULL },
    { "start of the document", "--- # c\nbf16: true\n", "--- # c\n" MADE, NULL },
    { "directives", "%YAML 1.1\n%TAG ! tag:x,2000:\n---\nbf16: true\n",
      "%YAML 1.1\n%TAG ! tag:x,2000:\n---\n" MADE, NULL },
    { "garbage after the end", "bf16: true\n...\nbf16: true\n", NULL, "TS006" },
    { "garbage after a value", "bf16: \"true\" x\n", NULL, "TS009" },
    /* flow and block */
    { "flow mapping on top", "{seed: 1, bf16: true}\n",
      "{seed: 1, bf16: false, fp16: true}\n", NULL },
    { "flow mapping over lines", "{seed: 1,   # a\n bf16: true, # b\n}\n",
      "{seed: 1,   # a\n bf16: false, fp16: true, # b\n}\n", NULL },
    { "flow value over lines", "dataset: [a,\n  b] # c\nbf16: true\n",
      "dataset: [a,\n  b] # c\n" MADE, NULL },
    { "the key within a block scalar",
      "system_prompt: |\n  bf16: true\n  x\nbf16: true\n",
      "system_prompt: |\n  bf16: true\n  x\n" MADE, NULL },
    { "folded scalar before it", "run_name: >-\n  bf16: true\n\n\nbf16: true\n",
      "run_name: >-\n  bf16: true\n\n\n" MADE, NULL },
    { "block scalar that keeps its end", "run_name: |+\n  a\n\nbf16: true\n",
      "run_name: |+\n  a\n\n" MADE, NULL },
    { "plain scalar over lines", "run_name: a\n  bf16 true\nbf16: true\n",
      "run_name: a\n  bf16 true\n" MADE, NULL },
    { "quoted scalar over lines", "run_name: 'a\n  # bf16: true'\nbf16: true\n",
      "run_name: 'a\n  # bf16: true'\n" MADE, NULL },
    { "the key in a map below", "trainspool:\n  note: {bf16: true}\nbf16: true\n",
      "trainspool:\n  note: {bf16: true}\n" MADE, NULL },
    /* comments and empty values */
    { "comment with the key", "# bf16: true\nbf16: true # bf16: true\n",
      "# bf16: true\nbf16: false # bf16: true\nfp16: true\n", NULL },
    { "empty value with a comment", "bf16: true\nfp16:   # later\n",
      "bf16: false\nfp16: true # later\n", NULL },
    { "empty value without a newline", "bf16: true\nfp16:", "bf16: false\nfp16: true",
      NULL },
    { "~", "bf16: true\nfp16: ~\n", MADE, NULL },
    { "Null", "bf16: true\nfp16: Null # c\n", "bf16: false\nfp16: true # c\n", NULL },
    { "# in a value", "run_name: a#b\nbf16: true\n", "run_name: a#b\n" MADE, NULL },
    /* words and numbers */
    { "yes", "bf16: yes\n", MADE, "TS102" },
    { "On", "bf16: On # c\n", "bf16: false # c\nfp16: true\n", "TS102" },
    { "y", "bf16: y\n", MADE, "TS102" },
    { "bool in quotes", "bf16: 'true'\n", "bf16: 'false'\nfp16: true\n", "TS102" },
    { "1_000", "save_steps: 1_000\n", NULL, "TS012" },
    { "017", "seed: 017\n", NULL, "TS012" },
    { "0o17", "seed: 0o17\n", NULL, "TS012" },
    { "12:30", "save_steps: 12:30\n", NULL, "TS012" },
    { "number in quotes", "seed: '7'\n", NULL, "TS014" },
    { "1e-4, .5, +1", "learning_rate: 1e-4\nweight_decay: .5\nseed: +1\n", NULL, NULL },
    { ".inf", "learning_rate: .inf\n", NULL, "TS410" },
    { ".nan", "weight_decay: .nan\n", NULL, "TS410" },
    { "${}", "bf16: ${oc.env:BF16}\n", NULL, "TS008" },
    /* bytes and characters */
    { "emoji before it on the line",
      "{run_name: \360\237\224\245\360\237\232\200, bf16: true}\n",
      "{run_name: \360\237\224\245\360\237\232\200, bf16: false, fp16: true}\n", NULL },
    { "right to left before it",
      "{run_name: \327\251\327\234\327\225\327\235\342\200\217, bf16: true}\n",
      "{run_name: \327\251\327\234\327\225\327\235\342\200\217, bf16: false, fp16: "
      "true}\n",
      NULL },
    { "combining before it", "{run_name: a\314\201\314\201, bf16: true}\n",
      "{run_name: a\314\201\314\201, bf16: false, fp16: true}\n", NULL },
    { "wide lines before it",
      "# \360\237\224\245 \344\275\240\345\245\275\nbf16: true # \303\244\n",
      "# \360\237\224\245 \344\275\240\345\245\275\nbf16: false # \303\244\nfp16: true\n",
      NULL },
    { "key of other letters", "\320\261f16: true\nbf16: true\n",
      "\320\261f16: true\n" MADE, NULL },
};

static struct device card(void)
{
    struct device device = { 0 };

    assert_true(device_find("T4", &device, NULL));
    return device;
}

static void check(const char *name, const char *data, size_t len, struct patch *out)
{
    struct device device = card();
    struct patch_options options = { .job = "/nowhere/job.yaml", .device = &device };
    struct error err = { 0 };

    if (!patcher_check(data, len, &options, out, &err))
        fail_msg("%s: %s", name, err.text);
}

static bool is_reported(const struct patch *patch, const char *rule)
{
    for (size_t i = 0; i < patch->findings.count; i++)
        if (strcmp(patch->findings.list[i].rule, rule) == 0)
            return true;
    return false;
}

/* A patched text needs no further edit, and undoing the edits restores the first text. */
static void check_undo(const char *name, const struct patch *patch)
{
    struct edits *back = edits_new();
    struct patch again;
    size_t grown = 0;
    struct text out;

    text_init(&out, 0);
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (!finding->new_text || !finding->resolved)
            continue;
        assert_true(edits_replace(back, finding->at.byte + grown,
                                  strlen(finding->new_text), finding->old_text, NULL));
        grown += strlen(finding->new_text) - finding->cut;
    }
    assert_true(edits_apply(back, patch->text, patch->len, &out, NULL));
    assert_int_equal(out.len, patch->document.len);
    assert_memory_equal(out.data, patch->document.data, out.len);
    check(name, patch->text, patch->len, &again);
    assert_false(again.changed);
    patch_clear(&again);
    text_clear(&out);
    edits_free(back);
}

static void test_hazards_are_edited_correctly_or_not_at_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(hazards); i++) {
        const struct hazard *hazard = &hazards[i];
        size_t len = strlen(hazard->text);
        struct patch patch;

        check(hazard->name, hazard->text, len, &patch);
        if (hazard->expected
                ? strcmp(patch.text, hazard->expected) != 0
                : patch.len != len || memcmp(patch.text, hazard->text, len) != 0)
            fail_msg("%s becomes %s", hazard->name, patch.text);
        if (hazard->rule && !is_reported(&patch, hazard->rule))
            fail_msg("%s: %s is not reported", hazard->name, hazard->rule);
        if (patch.document.root)
            check_undo(hazard->name, &patch);
        patch_clear(&patch);
    }
}

static void test_hazards_with_zero_bytes_are_not_edited(void **state)
{
    static const char utf16[] = "\377\376b\0f\0001\0006\0:\0 \0y\0\n";
    static const char zero[] = "bf16: true\n# \0\n";
    static const struct {
        const char *data;
        size_t len;
    } texts[] = { { utf16, sizeof(utf16) }, { zero, sizeof(zero) - 1 } };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct patch patch;

        check("zero bytes", texts[i].data, texts[i].len, &patch);
        assert_true(is_reported(&patch, "TS001"));
        assert_int_equal(patch.len, texts[i].len);
        assert_memory_equal(patch.text, texts[i].data, patch.len);
        patch_clear(&patch);
    }
}

/* Repeat a part `count` times, each with its number. */
static void fill(struct text *out, const char *head, const char *part, size_t count,
                 const char *tail)
{
    text_init(out, 0);
    text_adds(out, head);
    for (size_t i = 0; i < count; i++) {
        const char *hole = strchr(part, '@');

        text_add(out, part, hole ? (size_t)(hole - part) : strlen(part));
        if (hole)
            text_addf(out, "%zu%s", i, hole + 1);
    }
    text_adds(out, tail);
}

/* A job of the maximum size: the last line is edited, and no other byte. */
static void test_hazards_largest_file_is_edited_at_its_end(void **state)
{
    static const char tail[] = "bf16: true\n", expected[] = MADE;
    const char line[] = "# \303\244\360\237\224\245 no key: value at all\n";
    struct patch patch;
    struct text text;

    (void)state;
    fill(&text, "", line, (DOCUMENT_MAX_BYTES - 64) / (sizeof(line) - 1), tail);
    check("1 MiB", text.data, text.len, &patch);
    assert_int_equal(patch.len, text.len + strlen(expected) - strlen(tail));
    assert_memory_equal(patch.text, text.data, text.len - strlen(tail));
    assert_string_equal(patch.text + text.len - strlen(tail), expected);
    patch_clear(&patch);
    text_clear(&text);
}

/* Edits that would exceed the limit are not made, and the reason is reported. */
static void test_hazards_file_without_room_for_an_edit(void **state)
{
    struct device device = card();
    struct patch_options options = { .job = "/nowhere/job.yaml", .device = &device };
    struct error err = { 0 };
    struct patch patch;
    struct text text;

    (void)state;
    fill(&text, "bf16: true\n", "#\n", DOCUMENT_MAX_BYTES / 2 - 6, "\n");
    assert_int_equal(text.len, DOCUMENT_MAX_BYTES);
    assert_false(patcher_check(text.data, text.len, &options, &patch, &err));
    assert_int_equal(err.code, ERROR_JOB);
    assert_non_null(strstr(err.text, "at most 1048576"));
    patch_clear(&patch);
    text_clear(&text);
}

/* Beyond a limit nothing is edited, and TS009 names the limit. */
static void test_hazards_beyond_a_limit_are_not_edited(void **state)
{
    static const struct {
        const char *name, *head, *part;
        size_t count;
        const char *tail;
    } rows[] = {
        { "10,000 keys", "bf16: true\n", "key@: 1\n", 10000, "" },
        { "200 levels in brackets", "bf16: true\nrun_name: ", "[", 200, "" },
        { "200 levels in braces", "bf16: true\nrun_name: ", "{a@: ", 200, "" },
        { "200 levels of lists", "bf16: true\nrun_name:\n  ", "- ", 200, "a\n" },
        { "more than 1 MiB", "bf16: true\n", "# 0123456789 0123456789\n", 50000, "" },
        { "200 aliases", "bf16: true\nx: &x 1\nrun_name: [", "*x, ", 200, "]\n" },
        { "a long scalar", "bf16: true\nrun_name: ", "0123456789", 500, "\n" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct patch patch;
        struct text text;

        fill(&text, rows[i].head, rows[i].part, rows[i].count, rows[i].tail);
        check(rows[i].name, text.data, text.len, &patch);
        if (patch.changed || !is_reported(&patch, "TS009") || !patch_rejected(&patch))
            fail_msg("%s is not rejected", rows[i].name);
        assert_int_equal(patch.len, text.len);
        assert_memory_equal(patch.text, text.data, text.len);
        patch_clear(&patch);
        text_clear(&text);
    }
}

/* Just below the limits, with the line to edit in the middle. */
static void test_hazards_of_many_keys_converge(void **state)
{
    struct patch patch;
    struct text text;

    (void)state;
    fill(&text, "stage: sft\nx:\n", "  key@: 1\n", 3000, "bf16: true\ny:\n");
    for (size_t i = 0; i < 3000; i++)
        text_addf(&text, "  other%zu: 1 # c\n", i);
    check("6,001 keys", text.data, text.len, &patch);
    assert_true(patch.changed);
    assert_int_equal(patch.len, text.len + strlen(MADE) - strlen("bf16: true\n"));
    assert_non_null(strstr(patch.text, "\n  key2999: 1\n" MADE "y:\n  other0: 1 # c\n"));
    check_undo("6,001 keys", &patch);
    patch_clear(&patch);
    text_clear(&text);
}

/* Nine levels of nine aliases are never expanded, and the key is edited. */
static void test_hazards_alias_bomb_is_not_expanded(void **state)
{
    struct patch patch;
    struct text text;

    (void)state;
    fill(&text, "stage: sft\nx:\n  a0: &a0 [x]\n", "", 0, "");
    for (int i = 1; i <= 9; i++) {
        text_addf(&text, "  a%d: &a%d [", i, i);
        for (int k = 0; k < 9; k++)
            text_addf(&text, "*a%d, ", i - 1);
        text_adds(&text, "]\n");
    }
    text_adds(&text, "bf16: true\n");
    check("alias bomb", text.data, text.len, &patch);
    assert_int_equal(patch.len, text.len + strlen(MADE) - strlen("bf16: true\n"));
    assert_string_equal(patch.text + patch.len - strlen(MADE), MADE);
    patch_clear(&patch);
    text_clear(&text);
}

/* Settings of another program are compared without expanding ten levels of ten
 * aliases. */
static void test_hazards_alias_bomb_in_settings_is_not_expanded(void **state)
{
    const struct patch_options options = { .job = "job.yaml" };
    struct error err = { 0 };
    struct patch patch;
    struct text text;

    (void)state;
    text_init(&text, 0);
    text_adds(&text, "model_name_or_path: model\nstage: sft\n"
                     "trainspool: {target: external}\na0: &a0 [x]\n");
    for (int i = 1; i <= 9; i++) {
        text_addf(&text, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            text_addf(&text, "*a%d, ", i - 1);
        text_adds(&text, "]\n");
    }
    text_adds(&text, "deepspeed: {z: *a9 }\n");
    assert_true(patcher_check(text.data, text.len, &options, &patch, &err));
    assert_true(patch.is_job);
    patch_clear(&patch);
    text_clear(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hazards_are_edited_correctly_or_not_at_all),
        cmocka_unit_test(test_hazards_with_zero_bytes_are_not_edited),
        cmocka_unit_test(test_hazards_largest_file_is_edited_at_its_end),
        cmocka_unit_test(test_hazards_file_without_room_for_an_edit),
        cmocka_unit_test(test_hazards_beyond_a_limit_are_not_edited),
        cmocka_unit_test(test_hazards_of_many_keys_converge),
        cmocka_unit_test(test_hazards_alias_bomb_is_not_expanded),
        cmocka_unit_test(test_hazards_alias_bomb_in_settings_is_not_expanded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
