"""Abbreviations and first words of sentences by language, for deciding which full stops end a sentence."""

import re
from functools import cache
from typing import Final, NamedTuple

from allyouneed.language_codes import spoken_language


class Words(NamedTuple):
    """Words of a language. Abbreviations lack the last full stop; spaces within them are left out.

    A word in lower case also stands for itself with capitals; one with capitals stands for itself only.
    """

    opening: frozenset[str] = frozenset()
    """Abbreviations that a sentence never ends with: titles, "e.g."."""
    numbered: frozenset[str] = frozenset()
    """Abbreviations before a number, such as "p. 12"; without one the word may be another, such as "No."."""
    closing: frozenset[str] = frozenset()
    """Abbreviations after which a capital letter begins a sentence, such as "etc.".

    Those of one or two letters count after numbers only: the Polish "w 1939 r."."""
    either: frozenset[str] = frozenset()
    """Abbreviations that end a sentence only before one of `starters`: "Inc.", "St."."""
    starters: frozenset[str] = frozenset()
    """Words in lower case that, with a capital letter, mostly begin a sentence."""
    whole: frozenset[str] = frozenset()
    """Words that sentencex takes for abbreviations: the English "me" is in its list for Maine."""
    counted: frozenset[str] = frozenset()
    """Words with a capital letter that follow an ordinal number: months, "Weltkrieg"."""
    determiners: frozenset[str] = frozenset()
    """Words in lower case before an ordinal number and a capital letter: "der 2. Sohn"."""


@cache
def words_of(language: str) -> Words:
    """The words of a language (as by `primary_language`); none if they are not listed here."""
    listed = re.findall(
        r"(?ms)^([a-z]+): (.*?)$(?=\n[a-z]+: |\n?\Z)",
        _WORDS.get("no" if language == "nn" else spoken_language(language), ""),
    )
    return Words(**{name: frozenset(words.split()) for name, words in listed})


_WORDS: Final = {
    "de": """
opening: em habil pharm agr techn vet dent Dr Prof Hr Hrn Fr Frl Dipl Ing med phil jur rer nat theol h.c Mag
Lic Univ Doz PD Rev hl St Sr Jr bzw z.b d.h u.a u.u m.e i.a i.d.r i.e i.s o.g vgl ca cca rd inkl exkl
einschl zzgl abzgl sog gem lt ggf evtl insb insbes bspw geb gest verh hrsg hg red übers bearb zit z.t z.zt
max mind tägl jährl monatl wöchentl entspr bez betr sen jun Gen Hptm Maj Ltn Obst Fa Firma od v.a zw etw
urspr allg österr schweiz dt engl frz ital lat griech Mo Di Mi Do Sa So vs Vors stellv Frh Gfn Ew Exz Adr u.
zus mtl vorm nachm unverb zust verantw
numbered: Nrn nr S Seite Abs Art Kap Abb Tab Bd Bde Anm Ziff Ziffer Z Zl Rn Rz Rdnr Fn Aufl H Heft lit
Buchst tel Fax Str Pkt Abschn Anl Anh Bl Jg Taf Vers Par Pos Kto Blz Jan Feb Febr Mrz Apr Jun Jul Aug Sep
Sept Okt Nov Dez
closing: usw etc u.s.w u.ä u.dgl u.v.m u.v.a ff o.ä ebd
either: v.chr n.chr jh jhd jhdt std min sek Tsd mio mrd Co Corp Inc Ltd GmbH kg g.e.V e.V i.Br a.M a.d St
str Pl Einw J Okt Abt Abk Exp Gesch Bhf Bf Hbf Jhs ü.d.M ü.NN m.ü.M PS P.S
starters: er sie es wir ihr ich du man der die das dem den des ein eine einer eines einem einen dieser diese
dieses diesem diesen jener jene jenes danach dann dort da hier heute gestern morgen später früher vorher
nachher jetzt nun aber doch und oder denn sondern auch so trotzdem deshalb daher darum dabei dafür dagegen
damit darin außerdem zudem jedoch allerdings wenn als nachdem bevor während weil obwohl ob dass in im an am
auf bei beim mit nach von vom zu zum zur für über unter um aus durch gegen ohne seit bis zwischen wegen was
wer wo wie wann warum wohin woher welche welcher welches wessen alle alles viele einige manche mehrere
niemand jemand keiner keine kein nichts etwas jeder jede jedes sein seine seinen ihre ihren ihrem mein meine
unser unsere euer nicht nur noch schon bitte ja nein nie immer oft manchmal vielleicht leider andere anderen
beide zuerst zuletzt endlich schließlich
whole: mich man mag OK
counted: Januar Jänner Februar Feber März April Mai Juni Juli August September Oktober November Dezember Jan
Feb Febr Mrz Apr Jun Jul Aug Sep Sept Okt Nov Dez Weltkrieg Auflage Stock Stockwerk Etage Obergeschoss OG UG
Klasse Liga Bundesliga Platz Rang Mal Jahrhundert Jh Jhd Jhdt Tag Runde Band Kapitel Teil Senat Kammer
Halbzeit Advent Semester Quartal Halbjahr FC SC SV FSV Preis Geburtstag Jahrestag Bezirk Bild Akt Szene Satz
Sinfonie Symphonie Staffel Folge Spieltag Minute Stunde Woche Monat Jahr Lebensjahr Buch Ausgabe Schuljahr
Generation Grad Person Reihe Division Armee
determiners: der die das dem den des im am vom zum zur beim ins ans ein eine einer eines einem einen dieser
diese dieses diesem diesen jeder jede jedes jedem jeden sein seine seiner seinem seinen seines ihr ihre
ihrer ihrem ihren ihres mein meine meiner meinem meinen meines unser unsere unserer unserem unseren unseres
dein deine deiner deinem deinen euer eure eurem euren bis und zwischen nach seit ab bereits schon
""",
    "en": """
opening: Mr Mrs Ms Messrs Mx Dr Prof Rev Hon Gen Col Maj Capt Cpt Lt Sgt Cpl Pvt Cmdr Adm Brig Sen Rep Gov
Pres Amb Supt Insp Det Fr Msgr Mgr Mt Ft Pt e.g i.e cf viz vs v approx ca trans Univ dept Assn Attn esp incl
resp c
numbered: no nos p pp P fig figs Secs sec Sect ch chap vol vols art eq Eqs tab ex Par para ref pt bk App op
n nn ver rm Apt Ste Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec lines l ll line
closing: etc in ft lb lbs oz hr hrs mi yd
either: Inc Ltd Corp Co Cos Bros LLC plc Jr Sr Esq St Ave Blvd Rd Ln Pl Hwy Ph.D M.A B.A M.D D.C U.S U.K U.N
E.U U.S.A a.m p.m A.M P.M B.C A.D B.C.E C.E et.al al gal sq Calif Mich Conn Pa Penn Tex Fla Ariz Colo Minn
Okla Tenn Va Vt Wis Ala Ark Ga Ky Md Neb Nev Mon Tue Tues Wed Thu Thur Thurs Fri dept avg misc tel ext fax
ed eds
starters: he she it we they you i the a an this that these those there here then now when where why how what
who which whose if because although though while after before since until as at in on by for from with
without to of into over under between during but and or so yet nor not no yes his her its our their your my
mine nobody somebody everyone everybody someone nothing something everything all some many most few each
both another other others however therefore thus also still even only later today yesterday tomorrow once
never always often sometimes perhaps maybe please let is are was were do does did has have had can could
will would should may might must one two
whole: me man OK ill art miss may wash
""",
    "fr": """
opening: prof profs em M MM Mr Mme Mmes Mlle Mlles Me Mes Mgr Dr Drs Pr Prof Gal Gén Col Cdt Cap Cne Lt Sgt
St Ste Sts Stes Vve Hon R.P p.ex cf cfr env v bd boul ch rte pl fg fbg imp sq préf dép dépt min secr éd trad
rév anc ex max N.B c.-à-d c.à.d id ibid resp prés dir adj tél ND N.-D
numbered: p pp art al fig figs tab chap ch vol t n no nos num liv sect par éq ill pl f fol v ann tél tel
janv févr fév avr juil juill sept oct nov déc rue
closing: etc suiv sv apr.j.-c av.j.-c j.-c s h min kg km sec mn
either: Cie S.A S.A.R.L S.A.S SA Ltd Inc Co Jr U.S.A U.S É.-U E.U O.N.U lun mar mer jeu ven sam dim av bd
max env
starters: il elle on nous vous ils elles je j tu le la les l un une des du de ce cet cette ces c ça cela
ceci mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs qui que quoi où quand comment pourquoi
combien quel quelle quels quelles et mais ou donc or ni car si comme lorsque puisque quoique parce après
avant pendant depuis dès jusqu dans en à au aux avec sans sous sur pour par contre chez entre vers selon
puis ensuite alors enfin ainsi aussi d'abord hier demain aujourd maintenant ici là voici voilà tout tous
toute toutes rien personne nul aucun aucune chacun chaque plusieurs certains certaines beaucoup peu trop
plus moins autre autres même oui non pas ne n s qu y deux trois cependant pourtant toutefois néanmoins
toujours jamais souvent parfois peut
whole: sens vol va art la sec con
""",
    "es": """
opening: Sr Sra Srta Sres Sras D Dn Dª Dña Dr Dra Dres Dras Prof Profa Profs Lic Ing Arq Abog Gral Cnel Tte
Cap Cmte Sgto Mons Fr Sor Pbro Rvdo Sta Sto S Excmo Excma Ilmo Ilma Hno Hna p.ej p.e cf cfr aprox avda av c
C/ pza ctra esq edit ed eds trad dpto depto dir pdte vda fdo admón máx mín N.B vs ca ref
numbered: pág págs p pp art arts fig figs cap caps vol vols t núm núms n no nº tel tfno tfo teléf apdo párr
secc sec tab ej lám lib hab ene feb mar abr may jun jul ago sep sept oct nov dic
closing: etc a.c d.c a.de.c h hs min seg kg km m
either: Ud Uds Vd Vds EE.UU S.A S.L S.A.B S.A.de.C.V Cía Cia Ltda Inc Co Jr a.m p.m A.M P.M O.N.U U.E P.D
izda dcha aprox s sig sigs
starters: él ella ellos ellas yo tú usted ustedes nosotros vosotros el la los las lo un una unos unas este
esta estos estas ese esa esos esas aquel aquella esto eso aquello mi mis tu tus su sus nuestro nuestra
nuestros vuestro que qué quien quién quienes cuál dónde donde cuándo cuando cómo como cuánto por para porque
pero y o ni si sino aunque mientras después antes luego entonces ahora hoy ayer mañana aquí allí ahí allá en
a al de del con sin sobre bajo entre hasta hacia desde según contra durante tras todo todos toda todas nada
nadie ninguno ninguna algo alguien alguno algunos muchos muchas pocos otro otra otros otras cada ambos más
menos muy tan también tampoco además así embargo no sí ya aún todavía siempre nunca veces quizá quizás tal
se me te le les nos es era fue son eran hay había hubo está están tiene tenía
whole: bien para entre sobre contra extra super micro
""",
    "it": """
opening: sig sig.ra sig.na sigg sigg.ri dott dott.ssa dr dr.ssa prof prof.ssa proff ing avv arch geom rag on
sen cav comm gen col magg ten serg cap mons S Ss SS Sta Sto egr gent Gent.mo spett Ill.mo Preg p.es ad.es
per.es cfr cf v V vd ca circa c.so p.zza v.le f.lli l.go dip ist min trad ed edd max rif N.B vs Ns
numbered: pag pagg p pp art artt fig figg cap capp vol voll t n nn nr num tel tab par sez sc int gen feb
febb mar apr mag giu lug ago set sett ott nov dic comma lett
closing: ecc etc segg a.c d.c h min sec kg km
either: S.p.A s.p.a s.r.l s.n.c S.a.s U.S.A O.N.U U.E P.S sec seg Co Inc Jr ca a.m p.m
starters: egli ella lui lei loro esso essa io tu noi voi il lo la i gli le l un uno una questo questa questi
queste quello quella quelli quelle ciò mio mia miei tuo tua suo sua suoi nostro nostra vostro che chi cosa
dove quando come perché quanto quale quali e ed ma o oppure però se anche né poi dopo prima allora ora
adesso oggi ieri domani qui qua lì là ecco in nel nella nei negli nelle a al alla ai agli alle di del della
dei degli delle da dal dalla con senza su sul sulla sui per tra fra contro durante secondo verso tutto tutti
tutta tutte niente nulla nessuno nessuna qualcosa qualcuno alcuni alcune molti molte pochi altro altri altra
altre ogni entrambi più meno molto così inoltre tuttavia infatti quindi dunque non sì no già ancora sempre
mai spesso forse si mi ti ci vi è era fu sono erano c'è ha aveva
whole: file va vo arte ora raid
""",
    "nl": """
opening: dhr mevr mw mej dr drs prof ir ing mr ds Mgr Gen Kol Maj Kapt Lt Sgt St bijv bv b.v d.w.z m.b.t m.i
m.a.w o.a n.a.v t.a.v t.b.v t.g.v t.o.v i.p.v i.v.m i.h.a i.t.t vgl zgn z.g ca circa incl excl min max afd
afk inst vert geb overl gest red resp evt event vnl m.n w.o a.s jl a.u.b s.v.p Kon pres uitg vs a.d t.z.t
zog plm Fa
numbered: nr nrs blz p pp pag art lid hfst hst afb fig tab bijl par § dl vol tel jg jrg noot aflev jan feb
febr mrt apr jun jul aug sep sept okt nov dec
closing: enz etc v.chr n.chr e.d e.a d.d min sec km kg mln mld
either: N.V B.V V.S V.K E.U U.S.A Co Inc Ltd Corp jr sr str ln pl eeuw a.m p.m P.S
starters: hij zij ze het we wij jullie je jij u ik men de een dit dat deze die mijn jouw uw zijn haar ons
onze hun wie wat waar wanneer waarom hoe welke welk en maar of want dus toch ook als toen nadat voordat
terwijl omdat hoewel sinds daarna dan nu vandaag gisteren morgen later vroeger eerst hier daar er in op aan
bij met na naar van voor door om over onder tussen tegen tot uit zonder volgens tijdens wegens alle alles
veel enkele sommige niemand iemand niets iets geen elke elk ieder iedereen beide andere anderen niet nog al
zo ja nee nooit altijd vaak soms misschien helaas echter bovendien daarom daardoor
whole: best hand pas bank ver pers begins mand verdrag wet
""",
    "pl": """
opening: dypl em rtm adm prof doc inż mgr hab lek med ks bp abp kard św pp gen płk pułk ppłk mjr kpt por
ppor sierż plut kpr red mec dyr prez wicemin min dr dra np m.in tj tzn tzw zob ul al pl pw woj pow gm tel
wyd wydz tłum oprac pod.red ur zm wz maks vs ww godz ang niem franc ros łac gr poz sp p d.s inst przyp ew śp
Sz St
numbered: m lok s str nr art ust pkt par rys tab ryc rozdz t vol zesz poz godz tel lit zał pyt zad § stycz
sty lut mar kwi maj cze lip sie wrz paź lis gru
closing: itd itp etc p.n.e n.e r w zł gr tys mln mld nast kg km m min sek h wg r.w
either: S.A sp.z.o.o z.o.o s.c s.j Co Inc Ltd P.S jr sr itp o.o i.in in im ok os
starters: on ona ono oni one ja ty my wy ten ta to ci te tamten tam tu tutaj jego jej ich mój moja moje twój
nasz nasza wasz kto co gdzie kiedy dlaczego jak jaki jaka jakie który która które czy i a ale lecz albo lub
oraz więc zatem bo ponieważ gdy jeśli jeżeli chociaż potem później wtedy teraz dziś dzisiaj wczoraj jutro
najpierw w we na do z ze od po przed za pod nad przy przez dla bez o u między według podczas wszyscy
wszystko wszystkie nikt nic ktoś coś każdy żaden wiele wielu kilka niektórzy inni inne nie tak już jeszcze
tylko także również jednak dlatego zawsze nigdy często czasem może niestety jest był była było są byli
""",
    "cs": """
opening: prof doc ing mgr bc dr MUDr JUDr PhDr RNDr MVDr PaedDr ThDr PharmDr BcA akad arch p pí sl sv mons
gen plk pplk mjr kpt npor por ppor prap red min např tj tzn tzv mj cca asi srov viz ul nám tř al pl hl tel
přel ed eds vyd zal nar zemř kat odd ost max vs ú čs něm fr angl lat sp zvl příp popř resp
numbered: s str č čl čís odst písm obr tab kap sv roč tel § odd pozn příl bod r led úno bře dub kvě čvn čvc
srp zář říj lis pro
closing: atd apod aj etc př.n.l n.l násl kč stol tis mil mld hod min sek kg km m
either: a.s s.r.o spol v.o.s o.p.s Ph.D CSc DrSc Co Inc Ltd P.S ml st z.s z.ú
starters: on ona ono oni ony já ty my vy ten ta to ti tento tato toto tam tady zde jeho její jejich můj moje
tvůj náš naše váš kdo co kde kdy proč jak jaký jaká který která které a ale avšak nebo i tedy proto protože
když jestli pokud ačkoli pak potom později tehdy teď nyní dnes včera zítra nejdřív v ve na do z ze od po
před za pod nad při pro bez o u mezi podle během všichni všechno vše nikdo nic někdo něco každý žádný mnoho
několik někteří jiní ne ano už ještě jen také však vždy nikdy často někdy možná bohužel je byl byla bylo
jsou byli
""",
    "sv": """
opening: em emer fil jur med hr fr dr prof doc fil.dr med.dr tekn.dr jur.dr mag kand S:ta s:t gen gen.dir öv
kapt löjtn t.ex s.k ca cirka bl.a d.v.s dvs m.a.o jfr jmf inkl exkl enl f.d f.n p.g.a pga fr.o.m t.o.m resp
ev förf red övers inst avd dir ordf leg kungl vs obs eg urspr bitr stf f föd N.B sthlm
numbered: s sid nr kap fig tab bd vol art st § mom kl tel jan feb febr mar apr jun jul aug sep sept okt nov
dec
closing: osv m.m m.fl etc f.kr e.kr o.d o.dyl ff kr min sek tim kg km mkr
either: Co Inc Ltd jr sr P.S vån Storg g h.c e.d milj mdr st våg el min max fil
starters: han hon det den de vi ni jag du man en ett detta denna dessa där här då nu i på av för med till
från om efter innan sedan medan eftersom när var vart varför hur vad vem vilka vilken vilket men och eller
så också inte bara ännu redan ja nej aldrig alltid ofta ibland kanske tyvärr alla allt många några ingen
inget ingenting någon något varje båda andra hans hennes dess deras min mitt mina din vår vårt våra era utan
under över mellan mot genom vid hos enligt idag igår imorgon senare tidigare först därefter därför dock
dessutom annars som att
""",
    "da": """
opening: phil em jur med theol hr fr frk dr prof doc mag lic cand stud gen ob kapt ltn skt sct f.eks eks
bl.a d.v.s dvs ca cirka jf jvf inkl ekskl iflg ifl såk s.k pga p.g.a mht m.h.t vedr evt ang fhv tidl forf
red overs udg inst afd maks dir adv kgl vs obs opr nuv gl kbh hhv h.h.v pr
numbered: s nr kap fig tab bd vol art stk § kl tlf tel sp jan feb febr mar apr jun jul aug sep sept okt nov
dec
closing: osv o.s.v m.m m.v mv m.fl etc f.kr e.kr o.l o.lign ff kr min sek kg km
either: Co Inc Ltd jun sen jr sr P.S mio mia ApS h.c min max
starters: han hun det den de vi i jeg du man en et dette denne disse der her da nu på af for med til fra om
efter før inden siden mens fordi når hvor hvorfor hvordan hvad hvem hvilke hvilken men og eller så også ikke
kun endnu allerede ja nej aldrig altid ofte måske desværre alle alt mange nogle ingen intet noget nogen hver
begge andre hans hendes dens dets deres min mit mine din vores jeres uden under over mellem mod gennem ved
hos ifølge idag igår senere tidligere først derefter derfor dog desuden ellers som at hvis
whole: to var nord port sort fru rest
""",
    "no": """
opening: philos em juris med theol hr fr frk dr prof dosent mag lic cand stud gen ob kapt lt st f.eks eks
bl.a d.v.s dvs ca cirka jf jfr inkl ekskl iflg såk s.k pga p.g.a mht m.h.t vedr ev evt ang fhv tidl forf red
overs utg inst avd maks dir adv kgl vs obs opprinn nåv hhv h.h.v pr
numbered: s nr kap fig tab bd vol art § kl tlf tel pkt jan feb febr mar apr jun jul aug sep sept okt nov des
closing: osv o.s.v m.m m.v mv m.fl etc f.kr e.kr o.l o.lign ff kr min sek kg km
either: Co Inc Ltd jun sen jr sr P.S gt Storgt mill mrd AS ASA etg h.c min max
starters: han hun det den de dei vi jeg eg du man en et ei dette denne disse der her da nå i på av for med
til fra om etter før siden mens fordi når hvor hvorfor hvordan hva hvem hvilke hvilken men og eller så også
ikke bare ennå allerede ja nei aldri alltid ofte kanskje dessverre alle alt mange noen ingen ingenting noe
hver begge andre hans hennes dens dets deres min mitt mine din vår vårt våre uten under over mellom mot
gjennom ved hos ifølge senere tidligere først deretter derfor dessuten ellers som at hvis
""",
    "pt": """
opening: Sr Sra Srs Sras Srta Dr Dra Drs Dras Prof Profa Profª Eng Engª Arq Adv D Gen Cel Cap Ten Maj Sgt
Com Mons Pe Fr Frei Sto Sta S Exmo Exma Ilmo Ilma V Rev p.ex cf cfr aprox av pça Al Trav tv esq depto dept
dpto org ed eds trad dir pres min máx mín ref N.B vs ca rod est R
numbered: pág págs p pp art arts fig figs cap caps vol vols t n nº no núm tel tab sec seç inc par al jan fev
mar abr mai jun jul ago set out nov dez
closing: etc a.c d.c h hs min seg kg km
either: S.A Ltda Lda Cia Inc Co Jr V.Exa Exa E.U.A U.E O.N.U P.S dto esq a.m p.m séc sécs ss
starters: ele ela eles elas eu tu você vocês nós vós o a os as um uma uns umas este esta estes estas esse
essa esses essas aquele aquela isto isso aquilo meu minha seu sua seus suas nosso nossa vosso que quem qual
quais onde quando como porque por quanto e mas ou nem se também então depois antes logo agora hoje ontem
amanhã aqui ali lá aí em no na nos nas ao à de do da dos das com sem sobre sob entre até desde segundo
contra durante após para pelo pela tudo todos toda todas nada ninguém nenhum alguém algo alguns algumas
muitos muitas poucos outro outra outros outras cada ambos mais menos muito tão além assim porém contudo
entretanto não sim já ainda sempre nunca talvez é era foi são eram há havia houve está estava tem tinha
""",
    "ro": """
opening: dl dna d-na d-l dlui d-lui dșoara dra dr prof conf lect asist ing av arh acad gen col lt cpt mr sf
Ap pr ex de.ex d.ex cf cca aprox str bd bld bul șos p-ța p-ta min dep dept jud com mun trad red resp pt vs
max tov ed eds dir N.B pres sec St pct
numbered: p pp pag pg art alin fig tab cap vol nr tel lit pct ap bl sc et km ian feb febr mar apr mai iun
iul aug sep sept oct noi nov dec sec
closing: etc ș.a ș.a.m.d î.hr d.hr î.e.n e.n ș.cl h min kg km
either: S.R.L S.A S.C S.U.A U.E O.N.U P.S Co Inc Ltd jr sr
starters: el ea ei ele eu tu noi voi un o niște acest această acești aceste acel acea acei acela aceea asta
aceasta acestea cine ce unde când cum de cât care și dar însă sau ori nici dacă deși fiindcă pentru că apoi
după înainte atunci acum azi ieri mâine aici acolo în din pe la cu fără sub peste între până spre prin
despre toți toate tot totul nimeni nimic cineva ceva fiecare mulți multe câțiva alții altele nu da deja încă
mereu niciodată poate totuși astfel așa s se a au este e era sunt erau i-a l-a m-a am ai avea
""",
    "ru": """
opening: физ мат техн экон юрид ист биол хим пед психол геогр филол философ проф акад доц д-р инж канд докт
ген полк подполк майор кап лейт серж г-н г-жа гг св прп напр т.е т.н т.к т.о см ср ок ул пл пер пр просп наб
бул ш обл р-н дер пос с.п тел ред изд ум миним фак каф гос нар засл зам зав нач пом рук англ нем фр лат греч
рус букв собр соч тов гр
numbered: стр с рис табл гл ст п пп ч т тт кн вып № кв д дом корп оф тел илл прим § разд янв февр фев мар
апр июн июл авг сент сен окт нояб ноя дек
closing: т.д т.п и.др др пр н.э г гг в вв руб коп тыс млн млрд ч мин сек кг км м чел экз сл
either: А.О О.О.О Ко мл ст С.Ш.А P.S к.м.н м г им стих род макс
starters: он она оно они я ты мы вы это этот эта эти тот та те там тут здесь его её их мой моя твой наш наша
ваш кто что где когда почему как какой какая который и а но однако или либо поэтому потому если хотя затем
потом тогда сейчас теперь сегодня вчера завтра сначала в во на до с со от по перед за под над при через для
без о об у между после согласно все всё всех никто ничто ничего кто-то что-то каждый никакой много несколько
некоторые другие не нет да уже ещё еще только также тоже всегда никогда часто иногда может впрочем вот был
была было были есть ему ей им мне тебе нам вам
""",
    "fi": """
opening: hra rva nti tri prof maist lis toht joht kenr ev kapt luutn luut ylil kers vänr esim mm ns ts n
noin ks vrt ent toim suom synt s.k k os sis rak vast kaup yliop puh pj enint väh vähint läh jkp alk ap max
min vs huom nyk fil tekn lääk St pyh
numbered: s ss nro n:o kpl luku luv kuva kuv taul tau mom § os puh klo tammi helmi maalis
closing: jne ym yms tms ine eaa ekr jkr e.kr j.kr eur milj mrd min sek kg km
either: Oy Oyj Co Inc Ltd jr sr P.S k t kk
starters: hän se he ne minä sinä me te tämä nämä tuo nuo siellä täällä tuolla siinä tässä siitä tästä sitten
silloin nyt tänään eilen huomenna myöhemmin aiemmin ensin ja mutta tai vai sekä koska kun jos vaikka että
kuka mikä mitä missä milloin miksi miten kuinka mihin mistä kaikki kukaan mikään mitään joku jokin jokainen
monet moni useat jotkut muut toinen molemmat ei en et emme kyllä joo jo vielä vain myös aina koskaan usein
joskus ehkä valitettavasti kuitenkin siksi lisäksi muuten hänen sen heidän niiden minun sinun meidän on oli
ovat olivat jälkeen ennen
""",
    "tr": """
opening: dr prof doç yrd Av müh Sn Ar gör öğr arş uzm Op Gen alb yb bnb yzb tğm ütğm Org Kor hz bkz krş karş
örn yakl mad Ed çev Haz böl üniv ünv Fak Mah apt İst Ank İng Alm T.C Mim Ecz Vet Dt Ord
numbered: s sf sh no md madde tel şek tab cilt c C sayı bl kat Oca Şub Mar Nis May Haz Tem Ağu Eyl Eki Kas
Ara
closing: vb vs vd v.b v.s v.d
either: Ltd Şti A.Ş San Tic Co Inc M.Ö M.S İ.Ö İ.S Cad Sok Bul Blv dk sn sa T.B.M.M P.S
starters: o bu şu onlar biz siz ben sen bunlar şunlar onun bunun benim senin bizim sizin onu bunu ona buna
burada orada şurada sonra daha önce şimdi bugün dün yarın ve ama fakat ancak veya ya çünkü eğer kim ne
nerede nereye neden niçin niye nasıl hangi kaç hepsi herkes hiç hiçbir kimse bazı birçok çok her bir iki hem
de da böylece ayrıca belki evet hayır değil yine hâlâ artık yoksa oysa için gibi kadar
counted: Dünya Cadde Sokak Bölüm Kat Lig Hafta Gün Yıl Sayfa Bölge Ordu Kolordu Daire Sınıf Murat Selim
Mehmet Mahmut Abdülhamid Abdülhamit Bayezid Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim
Kasım Aralık Yüzyıl
""",
}
