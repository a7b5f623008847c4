/* tests/unit/test_mail.c - no text of a job can add a header to a mail. */
#include "config.h"

#include "tests/unit/unit.h"

#include "runner/spool/mail.h"

static char *write_mail(const char *job, const char *reason)
{
    struct text text;

    text_init(&text, 0);
    assert_true(mail_write(&(struct mail) { .address = "ops@example.org",
                                            .job = job,
                                            .state = "failed",
                                            .reason = reason,
                                            .path = "/spool/a.yaml" },
                           &text));
    return text_detach(&text, NULL);
}

/* Every line of the header must be one of ours, or continue the subject. */
static void expect_headers(const char *mail)
{
    static const char *const allowed[] = { "To: <ops@example.org>\n",
                                           "Subject: trainspool: ",
                                           " =?UTF-8?Q?",
                                           "Auto-Submitted: auto-generated\n",
                                           "MIME-Version: 1.0\n",
                                           "Content-Type: text/plain; charset=UTF-8\n",
                                           "Content-Transfer-Encoding: 8bit\n" };
    const char *end = strstr(mail, "\n\n");

    assert_non_null(end);
    for (const char *line = mail; line < end; line = strchr(line, '\n') + 1) {
        bool known = false;

        for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
            known |= text_starts(line, allowed[i]);
        assert_true(known);
        assert_true(strchr(line, '\n') - line <= 998);
        for (const char *byte = line; *byte != '\n'; byte++)
            assert_true(*byte >= ' ' && *byte <= '~');
    }
}

static void test_mail_has_no_header_of_a_job(void **state)
{
    static const char *const names[] = {
        "a\nBcc: other@example.org\n\nbody",
        "a\r\nBcc: x@example.org",
        "a\rBcc: x@y",
        "a\n .\n.\n",
        "\xe2\x80\xa8"
        "Bcc: x@y",
        "\x85"
        "Bcc: x@y",
        "=?UTF-8?Q?=0ABcc?=",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *mail = write_mail(names[i], names[i]);

        expect_headers(mail);
        assert_null(strstr(mail, "\nBcc"));
        free(mail);
    }
}

static void test_mail_encodes_a_subject_in_words(void **state)
{
    char name[600], *mail;

    (void)state;
    name[0] = 0;
    for (int i = 0; i < 60; i++)
        strcat(name, "\xe4\xbb\xbb\xe5\x8a\xa1");
    mail = write_mail(name, "");
    expect_headers(mail);
    for (const char *word = mail; (word = strstr(word, "=?UTF-8?Q?")); word++)
        assert_true(strstr(word, "?=") + 2 - word <= 75);
    assert_null(strstr(mail, "reason:"));
    free(mail);
}

static void test_mail_divides_long_lines(void **state)
{
    char reason[5000], *mail;

    (void)state;
    memset(reason, 'x', sizeof(reason) - 1);
    reason[sizeof(reason) - 1] = 0;
    mail = write_mail("a", reason);
    for (const char *line = mail; *line; line = strchr(line, '\n') + 1)
        assert_true(strchr(line, '\n') - line <= 998);
    free(mail);
}

static void test_mail_refuses_addresses(void **state)
{
    static const char *const bad[] = { "",          "ops",   "@x",       "a@",
                                       "-oQ/tmp@x", "a b@x", "a@x\nb@y", "a@x,b@y",
                                       "a@b@c",     "<a@x>", "\"a\"@x",  "\xc3\xa4@x" };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error err = { 0 };

        assert_false(mail_check_address(bad[i], &err));
        assert_int_equal(err.code, ERROR_USAGE);
    }
    assert_true(mail_check_address("ops+gpu@host.example.org", NULL));
    assert_true(mail_check_address("root@localhost", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mail_has_no_header_of_a_job),
        cmocka_unit_test(test_mail_encodes_a_subject_in_words),
        cmocka_unit_test(test_mail_divides_long_lines),
        cmocka_unit_test(test_mail_refuses_addresses),
    };

    return cmocka_run_group_tests_name("mail", tests, NULL, NULL);
}
