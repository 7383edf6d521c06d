module whalezen.dev/e2e/supervisor

go 1.26.0

require golang.org/x/sys v0.40.0
