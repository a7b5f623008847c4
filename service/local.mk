# Units for systemd, one watch per folder.  They are not installed if configure says --without-systemdsystemunitdir
# or --without-systemduserunitdir.

EXTRA_DIST += %D%/example.conf
EXTRA_DIST += %D%/trainspool@.service.in %D%/trainspool-shared@.service.in %D%/trainspool@.user.service.in
units = %D%/trainspool@.service %D%/trainspool-shared@.service %D%/trainspool@.user.service
noinst_DATA += $(units)
CLEANFILES += $(units)

%D%/trainspool@.service: $(srcdir)/%D%/trainspool@.service.in Makefile
	@$(MKDIR_P) %D%
	$(AM_V_GEN)sed 's|@bindir[@]|$(bindir)|g' '$(srcdir)/%D%/trainspool@.service.in' >$@-t && mv $@-t $@
%D%/trainspool-shared@.service: $(srcdir)/%D%/trainspool-shared@.service.in Makefile
	@$(MKDIR_P) %D%
	$(AM_V_GEN)sed 's|@bindir[@]|$(bindir)|g' '$(srcdir)/%D%/trainspool-shared@.service.in' >$@-t && mv $@-t $@
%D%/trainspool@.user.service: $(srcdir)/%D%/trainspool@.user.service.in Makefile
	@$(MKDIR_P) %D%
	$(AM_V_GEN)sed 's|@bindir[@]|$(bindir)|g' '$(srcdir)/%D%/trainspool@.user.service.in' >$@-t && mv $@-t $@

# The units trainspool@ of the system and of users have the same name where they are installed.
install-data-local: $(units)
	@test -z '$(systemdsystemunitdir)' || { $(MKDIR_P) '$(DESTDIR)$(systemdsystemunitdir)' && \
	    $(INSTALL_DATA) '%D%/trainspool@.service' '%D%/trainspool-shared@.service' '$(DESTDIR)$(systemdsystemunitdir)'; }
	@test -z '$(systemduserunitdir)' || { $(MKDIR_P) '$(DESTDIR)$(systemduserunitdir)' && \
	    $(INSTALL_DATA) '%D%/trainspool@.user.service' '$(DESTDIR)$(systemduserunitdir)/trainspool@.service'; }
uninstall-local:
	@test -z '$(systemdsystemunitdir)' || rm -f '$(DESTDIR)$(systemdsystemunitdir)/trainspool@.service' \
	    '$(DESTDIR)$(systemdsystemunitdir)/trainspool-shared@.service'
	@test -z '$(systemduserunitdir)' || rm -f '$(DESTDIR)$(systemduserunitdir)/trainspool@.service'
