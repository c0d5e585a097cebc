# libredis-perl as a client of rlockd: client.pl PORT. One thread; subscribing is the last thing it does.
use strict;
use warnings;
use Redis;

$| = 1;
my $port = shift;
my $redis = Redis->new(server => "127.0.0.1:$port");

sub send_words {
    my ($client, $verb, @words) = @_;
    my $method = lc $verb;
    return scalar $client->$method(@words); # any command is a method (AUTOLOAD)
}

sub subscribe {
    my $channel = shift;
    my $own = Redis->new(server => "127.0.0.1:$port");
    $own->subscribe($channel, sub { print "event $_[1] $_[0]\n" });
    print "subscribed $channel\n";
    $own->wait_for_messages(300) while 1;
}

print "ready\n";
while (my $line = <STDIN>) {
    chomp $line;
    my ($id, undef, $verb, @words) = split / /, $line;
    my $value = eval {
        $verb eq 'version' ? Redis->VERSION
          : $verb eq 'do' ? send_words($redis, @words)
          : $verb eq 'long' ? send_words(Redis->new(server => "127.0.0.1:$port", read_timeout => 300), @words)
          : $verb eq 'subscribe' ? 1
          : die "no verb $verb\n";
    };
    my $why = $@;
    $why =~ s/\n/ /g;
    print $why ? "$id err $why\n" : defined $value ? "$id ok $value\n" : "$id no\n";
    subscribe($words[0]) if $verb eq 'subscribe';
}
