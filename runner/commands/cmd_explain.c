/*
 * runner/commands/cmd_explain.c - explain: shows a rule of the catalog, or lists all of
 * them.
 */
#include "config.h"

#include "runner/commands/commands.h"

#include <ctype.h>
#include <string.h>

#include "patcher/rules/rules.h"
#include "patcher/rules/suppress.h"
#include "runner/output/report_json.h"
#include "runner/options/options_help.h"

static int cmd_explain(const struct options *options);

const struct command command_explain = {
    .name = "explain",
    .operands = "[RULE]",
    .max_operands = 1,
    .options = (const enum option_id[]) { OPTION_JSON, OPTION_END },
    .help = "explain a rule; without RULE, list all rules",
    .run = cmd_explain,
};

enum { WIDTH = 80 };

static const char *const apply_sentences[] = {
    [APPLY_MANUAL] = "a message only",
    [APPLY_UNSAFE] = "an edit, made with --unsafe or by the policy that requires it",
    [APPLY_SAFE] = "an edit, made by trainspool patch",
};

static const char *const target_sentences[] = {
    [RULE_BOTH] = NULL,
    [RULE_NATIVE] = "trained here",
    [RULE_EXTERNAL] = "trained by another program: trainspool: {target: external}",
};

static json_t *rule_object(const struct rule *rule)
{
    json_t *object = json_object();

    json_object_set_new(object, "rule", json_string(rule->id));
    json_object_set_new(object, "title", report_json_string(rule->title));
    json_object_set_new(object, "severity", json_string(severity_names[rule->severity]));
    json_object_set_new(object, "applicability", json_string(apply_names[rule->apply]));
    json_object_set_new(object, "firm", json_boolean(rule->mandatory));
    json_object_set_new(object, "target", json_string(rule_targets[rule->target]));
    json_object_set_new(object, "explain", report_json_string(rule->explain));
    json_object_set_new(object, "source", report_json_string(rule->source));
    return object;
}

static void explain(struct report *report, const struct rule *rule)
{
    struct text out;

    text_init(&out, 0);
    text_addf(&out, "%s: %s\n\n", rule->id, rule->title);
    text_addf(&out, "severity  %s\naction    %s\n", severity_names[rule->severity],
              apply_sentences[rule->apply]);
    if (rule->mandatory)
        text_adds(&out, "ignore    an error of this rule cannot be ignored\n");
    if (target_sentences[rule->target])
        text_addf(&out, "jobs      %s\n", target_sentences[rule->target]);
    if (rule->explain) {
        text_addc(&out, '\n');
        options_wrap(rule->explain, 0, WIDTH, &out);
    }
    if (rule->source) {
        text_adds(&out, "\nsource:\n");
        options_wrap(rule->source, 2, WIDTH, &out);
    }
    report_write(report, &out);
    text_clear(&out);
}

static void list(struct report *report, const struct options *options, struct error *err)
{
    for (size_t i = 0; i < rules_count(); i++) {
        const struct rule *rule = rules_at(i);

        if (options->json)
            report_json(report, rule_object(rule), err);
        else
            report_line(report, "%s  %-7s  %-6s  %s", rule->id,
                        severity_names[rule->severity], apply_names[rule->apply],
                        rule->title);
    }
}

static int cmd_explain(const struct options *options)
{
    struct error err = { 0 };
    struct report report;
    const struct rule *rule;
    char id[16] = "";

    report_init(&report, options);
    if (options->operand_count == 0) {
        list(&report, options, &err);
        return report_exit(err.code);
    }
    for (size_t i = 0; i < sizeof(id) - 1 && options->operands[0][i]; i++)
        id[i] = (char)toupper((unsigned char)options->operands[0][i]);
    rule = rules_find(id);
    if (!rule) {
        const char *meant = suppress_suggest_rule(options->operands[0]);

        error_set(&err, ERROR_USAGE, "there is no rule %s; %s%s%s", options->operands[0],
                  meant ? "did you mean " : "trainspool explain lists them",
                  meant ? meant : "", meant ? "?" : "");
        report_error(options->program, &err);
        return report_exit(err.code);
    }
    if (options->json)
        report_json(&report, rule_object(rule), &err);
    else
        explain(&report, rule);
    return report_exit(err.code);
}
