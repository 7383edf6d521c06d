module whalezen.dev/e2e/supervisor

go 1.26.0
